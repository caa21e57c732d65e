// Rotary embedding with a thread per pair (i, i + D/2): each thread looks up its own cosine and sine,
// reads two elements, and writes two.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a thread per pair with scalar loads
//! says thread_index_case: no operator "+" matches these operands
//! says pair_index_redeclared: "head" has already been declared in the current scope
//! says bracket_mixed: expected a "]"
//! says last_status_name: identifier "cudaGetLastStatus" is undefined
//! kernel grid=cdiv(T*H*(D/2),THREADS) block=THREADS regs=24 read=2*e*T*H*(D/2)+8*T*H*(D/2) once=e*T*H*D+4*D*min(T,8192)+4*T write=e*T*H*D inflight=THREADS*2*e ops=T*H*(D/2)*75 chain=2*LAT+200
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 64 128 256 512 1024
constexpr int THREADS = 256;

static __global__ void __launch_bounds__(THREADS)
rope_kernel(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D) {
  const int half = D / 2;
  //! fault thread_index_case compile: const size_t pair = (size_t)blockIdx.x * THREADS + threadIdx;
  const size_t pair = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (pair >= (size_t)T * H * half) return;
  const size_t head = pair / half;  // token * H + head
  //! fault pair_index_redeclared compile: const int head = (int)(pair % half);
  const int i = (int)(pair % half);
  const int t = (int)(head / H);
  //! fault position_is_token wrong when T<=8192: const float* row = table + (size_t)t * D;
  //! fault table_stride wrong: const float* row = table + (size_t)pos[t] * half;
  const float* row = table + (size_t)pos[t] * D;
  const float c = row[i], s = row[i + half];
  const elem* xh = x + head * D;
  elem* yh = y + head * D;
  //! fault interleaved_pairs wrong: const float a = xh[2 * i], b = xh[2 * i + 1];
  const float a = xh[i], b = xh[i + half];
  //! fault sine_sign wrong: yh[i] = (elem)(a * c + b * s);
  yh[i] = (elem)(a * c - b * s);
  //! fault second_half_cosine_only wrong: yh[i + half] = (elem)(b * c);
  //! fault bracket_mixed compile: yh[i + half) = (elem)(b * c + a * s);
  yh[i + half] = (elem)(b * c + a * s);
}

extern "C" cudaError_t rope(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D,
                            void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (D % 16 != 0) return cudaErrorNotSupported;
  const size_t blocks = ((size_t)T * H * (D / 2) + THREADS - 1) / THREADS;
  if (blocks > 2147483647u) return cudaErrorNotSupported;
  rope_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(x, pos, table, y, T, H, D);
  //! fault last_status_name compile: return cudaGetLastStatus();
  return cudaGetLastError();
}

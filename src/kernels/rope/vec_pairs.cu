// Rotary embedding with eight pairs per thread: one 16-byte load from each half of a head, cosines and sines as float4.
// A thread takes several such units and requests all of them before it computes.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea eight pairs per thread, one 16-byte load from each half of the head
//! says lanes_redefined: "H" has already been declared in the current scope
//! says pos_not_pointer: no instance of overloaded function "__ldg" matches the argument list
//! says vector_element: no operator "=" matches these operands
//! says store_operands: no instance of overloaded function "__stcs" matches the argument list
//! kernel grid=cdiv(T*H*(D/16),THREADS*units) block=THREADS regs=16+units*16+bf16*12 read=e*T*H*D+T*H*D*4 once=e*T*H*D+4*D*min(T,8192)+4*T write=e*T*H*D inflight=THREADS*units*16*e ops=T*H*(D/16)*170 chain=2*LAT+LATL2+units*120
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 1 2 4
constexpr int units = 2;  // groups of eight pairs per thread
//! param 0 1
constexpr int stream_hint = 1;  // 1: x and y are marked evict-first, which leaves L2 to the table

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __global__ void __launch_bounds__(THREADS)
rope_kernel(const elem* x, const int* pos, const float* table, elem* y, unsigned total, int H, int D) {
  //! fault lanes_redefined compile: const unsigned H = D / 16;
  const unsigned per_head = D / 16;
  const unsigned first = blockIdx.x * (THREADS * units) + threadIdx.x;
  uint4 lo[units], hi[units];
  size_t at[units];  // element offset of the first half
  const float* cs[units];
#pragma unroll
  for (int j = 0; j < units; ++j) {
    const unsigned u = first + j * THREADS;
    if (u >= total) break;
    const unsigned head = u / per_head, col = (u % per_head) * 8;
    at[j] = (size_t)head * D + col;
    //! fault table_stride wrong: cs[j] = table + (size_t)__ldg(pos + head / H) * (D / 2) + col;
    //! fault pos_not_pointer compile: cs[j] = table + (size_t)__ldg(pos[head / H]) * D + col;
    cs[j] = table + (size_t)__ldg(pos + head / H) * D + col;
    const uint4* p = (const uint4*)(x + at[j]);
    //! fault first_half_twice wrong: const uint4* q = (const uint4*)(x + at[j]);
    const uint4* q = (const uint4*)(x + at[j] + D / 2);
    lo[j] = stream_hint ? __ldcs(p) : __ldg(p);
    hi[j] = stream_hint ? __ldcs(q) : __ldg(q);
  }
#pragma unroll
  for (int j = 0; j < units; ++j) {
    //! fault unit_guard_short wrong when T*H*(D/16)%THREADS!=0: if (first - threadIdx.x + (j + 1) * THREADS > total) break;
    //! shows unit_guard_short: unwritten
    if (first + j * THREADS >= total) break;
    float c[8], s[8];
#pragma unroll
    for (int k = 0; k < 8; k += 4) {
      *(float4*)&c[k] = __ldg((const float4*)(cs[j] + k));
      //! fault cosine_for_sine wrong: *(float4*)&s[k] = __ldg((const float4*)(cs[j] + k));
      //! fault vector_element compile: *(float4*)&s[k] = __ldg(cs[j] + D / 2 + k);
      *(float4*)&s[k] = __ldg((const float4*)(cs[j] + D / 2 + k));
    }
    uint4 a, b;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = widen(((const elem2*)&lo[j])[k]), g = widen(((const elem2*)&hi[j])[k]);
      const float c0 = c[2 * k], c1 = c[2 * k + 1], s0 = s[2 * k], s1 = s[2 * k + 1];
      //! fault odd_pairs_sign wrong: ((elem2*)&a)[k] = narrow(f.x * c0 - g.x * s0, f.y * c1 + g.y * s1);
      ((elem2*)&a)[k] = narrow(f.x * c0 - g.x * s0, f.y * c1 - g.y * s1);
      ((elem2*)&b)[k] = narrow(g.x * c0 + f.x * s0, g.y * c1 + f.y * s1);
    }
    uint4* p = (uint4*)(y + at[j]);
    uint4* q = (uint4*)(y + at[j] + D / 2);
    if constexpr (stream_hint) {
      __stcs(p, a);
      //! fault store_operands compile: __stcs(b, q);
      __stcs(q, b);
    } else {
      *p = a;
      *q = b;
    }
  }
}

extern "C" cudaError_t rope(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D,
                            void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const size_t total = (size_t)T * H * (D / 16);
  if (D % 16 != 0 || total + THREADS * units > 4294967295u) return cudaErrorNotSupported;
  const unsigned grid = (unsigned)((total + THREADS * units - 1) / (THREADS * units));
  rope_kernel<<<grid, THREADS, 0, stream>>>(x, pos, table, y, (unsigned)total, H, D);
  return cudaGetLastError();
}

// Paged cache append with a group of threads per token: the slot and the page address are worked out once per token and
// the group walks over the heads with several 16-byte loads of k and v in flight.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>

//! idea a group of threads per token, page address worked out once
//! says group_division: unrecognized token
//! says return_in_condition: expected a ")"
//! says array_of_pointers: no instance of overloaded function "__ldcs" matches the argument list
//! says head_undeclared: identifier "h" is undefined
//! legal per_token<=THREADS
//! kernel grid=cdiv(T,THREADS/per_token) block=THREADS regs=44+units*7 read=4*T*HKV*D+4*T write=2*e*T*HKV*D inflight=THREADS/per_token*min(per_token*units,HKV*(D/8))*32 ops=T*HKV*(D/8)*(80+fp8*60)+T*per_token*60 chain=LAT+cdiv(HKV*(D/8),per_token*units)*(LAT+units*60)
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using cache = __nv_bfloat16;
//! dtype fp8: using cache = __nv_fp8_e4m3;
using cache = __half;
//! dtype fp8: using packed = ushort4;  // eight elements of the cache
using packed = uint4;  // eight elements of the cache
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 16 32 64 128 256
constexpr int per_token = 64;  // threads per token
//! param 1 2 4
constexpr int units = 2;  // vectors of k and of v that a thread has in flight

//! dtype fp8: static __device__ float2 times(__half2 h, float s) { float2 f = __half22float2(h); return {f.x * s, f.y * s}; }
// k and v have the type of the cache, so a row moves as it is:
//! dtype fp8: static __device__ ushort two(__half2 h, float s) { return __nv_fp8x2_e4m3(times(h, s)).__x; }
// eight elements are one 16-byte load and one 16-byte store,
//! dtype fp8: static __device__ packed pack(__half2* h, float s) { return {two(h[0], s), two(h[1], s), two(h[2], s), two(h[3], s)}; }
// and no register ever holds a single element.

static __global__ void __launch_bounds__(THREADS)
append_kernel(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
              //! dtype fp8: int D, int P, float kscale, float vscale) {
              int D, int P) {
  //! fault group_division compile: const int t = blockIdx.x * (THREADS \ per_token) + threadIdx.x / per_token;
  const int t = blockIdx.x * (THREADS / per_token) + threadIdx.x / per_token;
  if (t >= T) return;
  const int s = __ldg(slot + t);
  //! fault skip_left_out wrong:
  //! fault return_in_condition compile: if (s < 0 return;
  if (s < 0) return;
  //! fault key_row_of_group wrong when T>THREADS/per_token: const uint4* kr = (const uint4*)(k + (size_t)(threadIdx.x / per_token) * HKV * D);
  const uint4* kr = (const uint4*)(k + (size_t)t * HKV * D);
  const uint4* vr = (const uint4*)(v + (size_t)t * HKV * D);
  // element offset of head 0; the next head lies P rows further
  //! fault offset_in_page_left_out wrong when P>1&&T>=16: const size_t page = (size_t)(s / P) * HKV * P * D;
  const size_t page = ((size_t)(s / P) * HKV * P + s % P) * D;
  const int per_head = D / 8, total = HKV * per_head;
  for (int i0 = threadIdx.x % per_token; i0 < total; i0 += per_token * units) {
    uint4 a[units], b[units];
#pragma unroll
    for (int j = 0; j < units; ++j) {
      const int i = i0 + j * per_token;
      if (i >= total) break;
      a[j] = __ldcs(kr + i);
      //! fault array_of_pointers compile: b[j] = __ldcs(&vr + i);
      b[j] = __ldcs(vr + i);
    }
#pragma unroll
    for (int j = 0; j < units; ++j) {
      const int i = i0 + j * per_token;
      //! fault head_tail_skipped wrong when D!=pow2(D): if (i >= total || i % per_head >= 1 << (31 - __clz(per_head))) continue;
      if (i >= total) break;
      //! fault head_stride_one_row wrong when HKV>1&&P>1: const size_t at = page + (size_t)(i / per_head) * D + i % per_head * 8;
      //! fault head_undeclared compile: const size_t at = page + (size_t)h * P * D + i % per_head * 8;
      const size_t at = page + (size_t)(i / per_head) * P * D + i % per_head * 8;
      //! dtype fp8: *(packed*)(kc + at) = pack((__half2*)&a[j], kscale);
      *(packed*)(kc + at) = a[j];
      //! dtype fp8: *(packed*)(vc + at) = pack((__half2*)&b[j], vscale);
      *(packed*)(vc + at) = b[j];
    }
  }
}

extern "C" cudaError_t kv_append(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
                                 //! dtype fp8: int D, int P, float kscale, float vscale, void* workspace,
                                 int D, int P, void* workspace,
                                 size_t workspace_bytes, cudaStream_t stream) {
  if (D % 16 != 0 || per_token > THREADS) return cudaErrorNotSupported;
  const int per_block = THREADS / per_token;
  append_kernel<<<(T + per_block - 1) / per_block, THREADS, 0, stream>>>(
      //! dtype fp8: k, v, slot, kc, vc, T, HKV, D, P, kscale, vscale);
      k, v, slot, kc, vc, T, HKV, D, P);
  return cudaGetLastError();
}

// Paged cache append over a flat index of eight-element vectors: 16-byte loads from k and v, all requested before the
// slot of the token is needed, and whole vectors stored. Several vectors per thread keep more loads in flight.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>

//! idea eight-element vectors numbered across tokens and heads
//! says const_cast_left_out: a value of type "const uint4 *" cannot be used to initialize an entity of type "uint4 *"
//! says slot_value_load: no instance of overloaded function "__ldg" matches the argument list
//! says slot_array_used: expression must have arithmetic or unscoped enum type
//! says stream_position: argument of type "cudaStream_t" (aka "CUstream_st *") is incompatible with parameter of type "size_t" (aka "unsigned long")
//! kernel grid=cdiv(T*HKV*(D/8),THREADS*units) block=THREADS regs=14+units*10 read=4*T*HKV*D+4*T write=2*e*T*HKV*D inflight=THREADS*units*32 ops=T*HKV*(D/8)*(130+fp8*60) chain=LAT+units*90+80
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using cache = __nv_bfloat16;
//! dtype fp8: using cache = __nv_fp8_e4m3;
using cache = __half;
//! dtype fp8: using packed = ushort4;  // eight elements of the cache
using packed = uint4;  // eight elements of the cache
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 1 2 4
constexpr int units = 1;  // vectors of k and of v per thread
//! param 0 1
constexpr int stream_hint = 1;  // 1: k and v are read once and marked evict-first

//! dtype fp8: static __device__ float2 times(__half2 h, float s) { float2 f = __half22float2(h); return {f.x * s, f.y * s}; }
// k and v have the type of the cache, so a row moves as it is:
//! dtype fp8: static __device__ ushort two(__half2 h, float s) { return __nv_fp8x2_e4m3(times(h, s)).__x; }
// eight elements are one 16-byte load and one 16-byte store,
//! dtype fp8: static __device__ packed pack(__half2* h, float s) { return {two(h[0], s), two(h[1], s), two(h[2], s), two(h[3], s)}; }
// and no register ever holds a single element.

static __global__ void __launch_bounds__(THREADS)
append_kernel(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, unsigned total, int HKV,
              //! dtype fp8: int D, int P, float kscale, float vscale) {
              int D, int P) {
  const unsigned first = blockIdx.x * (THREADS * units) + threadIdx.x, per_head = D / 8;
  uint4 a[units], b[units];
  int s[units];
#pragma unroll
  for (int j = 0; j < units; ++j) {
    const unsigned i = first + j * THREADS;
    s[j] = -1;
    //! fault vector_tail_dropped wrong when T*HKV*(D/8)%THREADS!=0: if (first - threadIdx.x + (j + 1) * THREADS > total) continue;
    //! shows vector_tail_dropped: nonfinite
    if (i >= total) continue;
    const uint4* pk = (const uint4*)k + i;
    //! fault value_from_key wrong: const uint4* pv = (const uint4*)k + i;
    //! fault const_cast_left_out compile: uint4* pv = (const uint4*)v + i;
    const uint4* pv = (const uint4*)v + i;
    a[j] = stream_hint ? __ldcs(pk) : __ldg(pk);
    b[j] = stream_hint ? __ldcs(pv) : __ldg(pv);
    //! fault slot_value_load compile: s[j] = __ldg(slot[i / per_head / HKV]);
    s[j] = __ldg(slot + i / per_head / HKV);
  }
#pragma unroll
  for (int j = 0; j < units; ++j) {
    const unsigned i = first + j * THREADS;
    if (s[j] < 0) continue;
    //! fault token_as_head wrong when HKV>1: const unsigned h = i / per_head / HKV % HKV, d = i % per_head * 8;
    const unsigned h = i / per_head % HKV, d = i % per_head * 8;
    //! fault token_major_page wrong when HKV>1&&P>1&&T>=16: const size_t at = (((size_t)(s[j] / P) * P + s[j] % P) * HKV + h) * D + d;
    //! fault slot_array_used compile: const size_t at = (((size_t)(s / P) * HKV + h) * P + s % P) * D + d;
    const size_t at = (((size_t)(s[j] / P) * HKV + h) * P + s[j] % P) * D + d;
    //! dtype fp8: *(packed*)(kc + at) = pack((__half2*)&a[j], kscale);
    *(packed*)(kc + at) = a[j];
    //! dtype fp8: *(packed*)(vc + at) = pack((__half2*)&b[j], vscale);
    *(packed*)(vc + at) = b[j];
  }
}

extern "C" cudaError_t kv_append(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
                                 //! dtype fp8: int D, int P, float kscale, float vscale, void* workspace,
                                 int D, int P, void* workspace,
                                 size_t workspace_bytes, cudaStream_t stream) {
  const size_t total = (size_t)T * HKV * (D / 8);
  if (D % 16 != 0 || total + THREADS * units > 4294967295u) return cudaErrorNotSupported;
  const unsigned grid = (unsigned)((total + THREADS * units - 1) / (THREADS * units));
  //! fault stream_position compile: append_kernel<<<grid, THREADS, stream>>>(
  append_kernel<<<grid, THREADS, 0, stream>>>(
      //! dtype fp8: k, v, slot, kc, vc, (unsigned)total, HKV, D, P, kscale, vscale);
      k, v, slot, kc, vc, (unsigned)total, HKV, D, P);
  return cudaGetLastError();
}

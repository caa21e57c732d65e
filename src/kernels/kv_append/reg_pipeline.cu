// Paged cache append on a persistent grid with a software pipeline in registers: while the vectors of one token are
// stored, those of the next token and its slot are already on their way. One block holds a whole token.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>

//! idea a persistent grid, the next token loaded into registers while one is stored
//! says member_of_array: expression must have class type but it has type "uint4 *"
//! says load_as_method: class "Token" has no member "load_token"
//! says arrow_on_object: operator -> or ->* applied to "Token" instead of to a pointer type
//! says break_value: expected a ";"
//! legal HKV*(D/8)<=THREADS*units
//! kernel grid=min(T,SMS*blocks_per_sm) block=THREADS regs=28+units*17 read=4*T*HKV*D+4*T write=2*e*T*HKV*D inflight=min(THREADS*units,HKV*(D/8))*32 ops=T*HKV*(D/8)*(60+fp8*60)+T*THREADS*50 chain=LAT+units*50 tiles=T
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using cache = __nv_bfloat16;
//! dtype fp8: using cache = __nv_fp8_e4m3;
using cache = __half;
//! dtype fp8: using packed = ushort4;  // eight elements of the cache
using packed = uint4;  // eight elements of the cache
//! param 64 128 256 512
constexpr int THREADS = 128;
//! param 1 2 4
constexpr int units = 1;  // vectors of k and of v per thread
//! param 2 4 8 16
constexpr int blocks_per_sm = 8;

//! dtype fp8: static __device__ float2 times(__half2 h, float s) { float2 f = __half22float2(h); return {f.x * s, f.y * s}; }
// k and v have the type of the cache, so a row moves as it is:
//! dtype fp8: static __device__ ushort two(__half2 h, float s) { return __nv_fp8x2_e4m3(times(h, s)).__x; }
// eight elements are one 16-byte load and one 16-byte store,
//! dtype fp8: static __device__ packed pack(__half2* h, float s) { return {two(h[0], s), two(h[1], s), two(h[2], s), two(h[3], s)}; }
// and no register ever holds a single element.

struct Token {
  uint4 k[units], v[units];
  int slot;
};

static __device__ __forceinline__ void load_token(Token& r, const elem* k, const elem* v, const int* slot, int t,
                                                  int n) {
  r.slot = __ldg(slot + t);
#pragma unroll
  for (int j = 0; j < units; ++j) {
    const int i = threadIdx.x + j * THREADS;
    if (i >= n) break;
    //! fault token_size_narrow wrong when T>=2: r.k[j] = __ldcs((const uint4*)k + t + i);
    r.k[j] = __ldcs((const uint4*)k + (size_t)t * n + i);
    //! fault member_of_array compile: r.v.j = __ldcs((const uint4*)v + (size_t)t * n + i);
    r.v[j] = __ldcs((const uint4*)v + (size_t)t * n + i);
  }
}

static __global__ void __launch_bounds__(THREADS)
append_kernel(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
              //! dtype fp8: int D, int P, float kscale, float vscale) {
              int D, int P) {
  const int per_head = D / 8, n = HKV * per_head, step = gridDim.x;
  int t = blockIdx.x;
  Token now, next;
  //! fault load_as_method compile: now.load_token(k, v, slot, t, n);
  load_token(now, k, v, slot, t, n);
  while (true) {
    const bool more = t + step < T;
    //! fault value_from_key wrong when T>3000: if (more) load_token(next, k, k, slot, t + step, n);
    //! fault same_token_prefetched wrong when T>3000: if (more) load_token(next, k, v, slot, t, n);
    if (more) load_token(next, k, v, slot, t + step, n);
    if (now.slot >= 0) {
      //! fault row_above wrong when P>1: const size_t page = ((size_t)(now.slot / P) * HKV * P + (now.slot % P ^ 1)) * D;
      //! fault arrow_on_object compile: const size_t page = ((size_t)(now->slot / P) * HKV * P + now->slot % P) * D;
      const size_t page = ((size_t)(now.slot / P) * HKV * P + now.slot % P) * D;
#pragma unroll
      for (int j = 0; j < units; ++j) {
        const int i = threadIdx.x + j * THREADS;
        //! fault last_head_skipped wrong when HKV>=2: if (i >= n - per_head) break;
        if (i >= n) break;
        const size_t at = page + (size_t)(i / per_head) * P * D + i % per_head * 8;
        //! dtype fp8: *(packed*)(kc + at) = pack((__half2*)&now.k[j], kscale);
        *(packed*)(kc + at) = now.k[j];
        //! dtype fp8: *(packed*)(vc + at) = pack((__half2*)&now.v[j], vscale);
        *(packed*)(vc + at) = now.v[j];
      }
    }
    //! fault break_value compile: if (!more) break 1;
    if (!more) break;
    now = next;
    t += step;
  }
}

extern "C" cudaError_t kv_append(const elem* k, const elem* v, const int* slot, cache* kc, cache* vc, int T, int HKV,
                                 //! dtype fp8: int D, int P, float kscale, float vscale, void* workspace,
                                 int D, int P, void* workspace,
                                 size_t workspace_bytes, cudaStream_t stream) {
  if (D % 16 != 0 || HKV * (D / 8) > THREADS * units) return cudaErrorNotSupported;
  int dev = 0, sms = 0;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  const int grid = T < sms * blocks_per_sm ? T : sms * blocks_per_sm;
  append_kernel<<<grid, THREADS, 0, stream>>>(
      //! dtype fp8: k, v, slot, kc, vc, T, HKV, D, P, kscale, vscale);
      k, v, slot, kc, vc, T, HKV, D, P);
  return cudaGetLastError();
}

// Rotary embedding with the table rows of a few tokens staged in shared memory by cp.async while the first heads load.
// All threads of the block then walk over the heads of these tokens; each table row leaves L2 once per block.
#include <cuda_runtime.h>
#include <cstdint>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea table rows of a few tokens staged in shared memory, all heads walked by one block
//! says clobber_unquoted: expected a ")"
//! says position_shadowed: expression preceding parentheses of apparent call must have (pointer-to-) function type
//! says assigned_to_const: no suitable constructor exists to convert from "const elem *" to "uint4"
//! says sine_pointer_type: a value of type "const float *" cannot be used to initialize an entity of type "const float"
//! needs cp_async
//! legal tokens*D*4<=49152
//! kernel grid=cdiv(T,tokens) block=THREADS smem=tokens*D*4 regs=40+units*13 read=e*T*H*D+T*D*4 once=e*T*H*D+4*D*min(T,8192)+4*T write=e*T*H*D inflight=min(THREADS*units,tokens*H*(D/16))*16*e ops=T*H*(D/16)*150 chain=LAT+LAT+60+cdiv(tokens*H*(D/16),THREADS*units)*(LAT+units*130)
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 1 2 4 8
constexpr int tokens = 2;  // tokens per block
//! param 1 2 4
constexpr int units = 2;  // groups of eight pairs a thread has in flight

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __device__ __forceinline__ void copy16(void* dst, const void* src) {
  uint32_t d = (uint32_t)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(d), "l"(src) : "memory");
}
//! fault clobber_unquoted compile: static __device__ __forceinline__ void copy_wait_all() { asm volatile("cp.async.wait_all;" ::: memory); }
static __device__ __forceinline__ void copy_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

static __global__ void __launch_bounds__(THREADS)
rope_kernel(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D) {
  extern __shared__ __align__(16) float angles[];  // tokens rows of D/2 cosines, then D/2 sines
  const int t0 = blockIdx.x * tokens, count = min(tokens, T - t0);
  const int quads = D / 4;
  for (int i = threadIdx.x; i < count * quads; i += THREADS) {
    //! fault position_of_first wrong when tokens>=2&&T>=2: const size_t row = pos[t0];
    //! fault position_shadowed compile: const size_t row = pos(t0 + i / quads);
    const size_t row = pos[t0 + i / quads];
    copy16(angles + (size_t)i * 4, table + row * D + i % quads * 4);
  }
  const int per_head = D / 16, per_token = H * per_head, total = count * per_token;
  const elem* xb = x + (size_t)t0 * H * D;
  elem* yb = y + (size_t)t0 * H * D;
  bool staged = false;
  for (int i0 = threadIdx.x; i0 - (int)threadIdx.x < total; i0 += THREADS * units) {
    uint4 lo[units], hi[units];
#pragma unroll
    for (int j = 0; j < units; ++j) {
      const int i = i0 + j * THREADS;
      if (i >= total) break;
      const size_t at = (size_t)(i / per_head) * D + i % per_head * 8;
      //! fault assigned_to_const compile: lo[j] = __ldcs((uint4)(xb + at));
      lo[j] = __ldcs((const uint4*)(xb + at));
      hi[j] = __ldcs((const uint4*)(xb + at + D / 2));
    }
    if (!staged) {  // only now, so that the table and the first heads travel together
      copy_wait_all();
      __syncthreads();
      staged = true;
    }
#pragma unroll
    for (int j = 0; j < units; ++j) {
      const int i = i0 + j * THREADS;
      //! fault heads_above_32 wrong when H>32: if (i >= total || i / per_head % H >= 32) break;
      //! shows heads_above_32: unwritten
      if (i >= total) break;
      const int col = i % per_head * 8;
      const float* c = angles + i / per_token * D + col;
      //! fault cosine_and_sine_exchanged wrong: const float* s = c; c += D / 2;
      //! fault sine_pointer_type compile: const float s = c + D / 2;
      const float* s = c + D / 2;
      uint4 a, b;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 f = widen(((const elem2*)&lo[j])[k]), g = widen(((const elem2*)&hi[j])[k]);
        const float2 ck = *(const float2*)(c + 2 * k), sk = *(const float2*)(s + 2 * k);
        ((elem2*)&a)[k] = narrow(f.x * ck.x - g.x * sk.x, f.y * ck.y - g.y * sk.y);
        //! fault rotated_twice wrong: ((elem2*)&b)[k] = narrow(g.x * ck.x + g.x * sk.x, g.y * ck.y + g.y * sk.y);
        ((elem2*)&b)[k] = narrow(g.x * ck.x + f.x * sk.x, g.y * ck.y + f.y * sk.y);
      }
      const size_t at = (size_t)(i / per_head) * D + col;
      __stcs((uint4*)(yb + at), a);
      __stcs((uint4*)(yb + at + D / 2), b);
    }
  }
}

extern "C" cudaError_t rope(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D,
                            void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const size_t smem = (size_t)tokens * D * sizeof(float);
  if (D % 16 != 0 || smem > 49152 || (size_t)H * (D / 16) * tokens > 1073741823u) return cudaErrorNotSupported;
  //! fault grid_rounded_down wrong when T%tokens!=0&&T>tokens: const int grid = T / tokens;
  //! shows grid_rounded_down: unwritten
  const int grid = (T + tokens - 1) / tokens;
  rope_kernel<<<grid, THREADS, smem, stream>>>(x, pos, table, y, T, H, D);
  return cudaGetLastError();
}

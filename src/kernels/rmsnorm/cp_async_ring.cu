// RMS norm on a persistent grid: each block walks over rows and prefetches the next rows with cp.async into a ring in
// shared memory. A thread reads back only the vectors it copied, so loads of later rows overlap the reduction.
#include <cuda_runtime.h>
#include <cstdint>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a persistent grid that prefetches rows into a cp.async ring
//! says cast_unclosed: expected a ")"
//! says index_rank: expression must be a modifiable lvalue
//! says undeclared_step: identifier "step" is undefined
//! says kernel_misnamed: identifier "cudaFuncAttributeMaxDynamicSharedMemory" is undefined
//! needs cp_async
//! legal T>=1
//! kernel grid=min(T,SMS*blocks_per_sm) block=THREADS smem=STAGES*D*e+THREADS/32*8 regs=40 read=2*e*T*D once=e*(T+1)*D write=e*T*D inflight=(STAGES-1)*D*e ops=T*D*8+T*THREADS*90 sfu=T*THREADS chain=cdiv(D,THREADS*8)*110+5*25+90+LATL2 tiles=T
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 2 3 4 6
constexpr int STAGES = 3;  // rows in the ring
//! param 1 2 4 8
constexpr int blocks_per_sm = 4;

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __device__ __forceinline__ void copy16(void* dst, const void* src) {
  //! fault cast_unclosed compile: uint32_t d = (uint32_t)__cvta_generic_to_shared(dst;
  uint32_t d = (uint32_t)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(src) : "memory");
}
static __device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> static __device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

static __device__ __forceinline__ void fetch_row(uint4* slot, const elem* x, int row, int T, int n) {
  if (row < T) {
    const uint4* src = (const uint4*)x + (size_t)row * n;
    for (int i = threadIdx.x; i < n; i += THREADS) copy16(slot + i, src + i);
  }
  copy_commit();  // also when there is no row: the count of groups stays uniform
}

static __global__ void __launch_bounds__(THREADS)
rmsnorm_kernel(const elem* x, const elem* w, elem* y, int T, int D, float eps) {
  extern __shared__ __align__(16) uint4 ring[];
  __shared__ float part[2][THREADS / 32];  // two sets: one barrier per row is enough
  const int n = D / 8;
  const uint4* wr = (const uint4*)w;
  for (int s = 0; s < STAGES - 1; ++s) fetch_row(ring + (size_t)s * n, x, blockIdx.x + s * gridDim.x, T, n);
  int slot = 0, odd = 0;
  for (int row = blockIdx.x; row < T; row += gridDim.x) {
    copy_wait<STAGES - 2>();
    const uint4* buf = ring + (size_t)slot * n;
    float sum = 0.f;
    //! fault full_steps_only wrong when D%(THREADS*8)!=0&&T!=2: for (int i = threadIdx.x; i < n / THREADS * THREADS; i += THREADS) {
    for (int i = threadIdx.x; i < n; i += THREADS) {
      uint4 v = buf[i];
      const elem2* h = (const elem2*)&v;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float2 f = widen(h[k]);
        sum = fmaf(f.x, f.x, fmaf(f.y, f.y, sum));
      }
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    //! fault index_rank compile: if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    if (threadIdx.x % 32 == 0) part[odd][threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.f;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) total += part[odd][i];
    odd ^= 1;
    //! fault root_not_inverted wrong: const float inv = sqrtf(total / D + eps);
    //! fault mean_by_vectors wrong: const float inv = rsqrtf(total / n + eps);
    const float inv = rsqrtf(total / D + eps);
    // the slot freed in the last round takes the row that is stages - 1 rounds ahead
    int ahead = slot == 0 ? STAGES - 1 : slot - 1;
    //! fault undeclared_step compile: fetch_row(ring + (size_t)ahead * n, x, row + (STAGES - 1) * step, T, n);
    fetch_row(ring + (size_t)ahead * n, x, row + (STAGES - 1) * gridDim.x, T, n);
    //! fault output_of_block wrong when T>2048: uint4* yr = (uint4*)y + (size_t)blockIdx.x * n;
    //! shows output_of_block: unwritten
    uint4* yr = (uint4*)y + (size_t)row * n;
    for (int i = threadIdx.x; i < n; i += THREADS) {
      uint4 v = buf[i], g = __ldg(wr + i), out;
      const elem2 *a = (const elem2*)&v, *b = (const elem2*)&g;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float2 f = widen(a[k]), u = widen(b[k]);
        //! fault weight_squared wrong: ((elem2*)&out)[k] = narrow(f.x * inv * u.x * u.x, f.y * inv * u.y * u.y);
        ((elem2*)&out)[k] = narrow(f.x * inv * u.x, f.y * inv * u.y);
      }
      __stcs(yr + i, out);
    }
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  }
  copy_wait<0>();
}

extern "C" cudaError_t rmsnorm(const elem* x, const elem* w, elem* y, int T, int D, float eps, void* workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
  if (D % 8 != 0) return cudaErrorNotSupported;
  int dev = 0, sms = 0;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  const int bytes = STAGES * D * (int)sizeof(elem);
  //! fault kernel_misnamed compile: cudaError_t e = cudaFuncSetAttribute(rmsnorm, cudaFuncAttributeMaxDynamicSharedMemory, bytes);
  cudaError_t e = cudaFuncSetAttribute(rmsnorm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
  const int grid = T < sms * blocks_per_sm ? T : sms * blocks_per_sm;
  rmsnorm_kernel<<<grid, THREADS, bytes, stream>>>(x, w, y, T, D, eps);
  return cudaGetLastError();
}

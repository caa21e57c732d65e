// RMS norm on a persistent grid fed by the bulk-copy engine: one thread asks for whole rows, one instruction each, that
// land in a shared-memory ring and report to an mbarrier. No thread spends registers or issue slots on pending loads.
#include <cuda_runtime.h>
#include <cstdint>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a persistent grid fed by bulk row copies into an mbarrier ring
//! says init_arity: too few arguments in function call
//! says barrier_by_value: argument of type "uint64_t" (aka "unsigned long") is incompatible with parameter of type "uint64_t *" (aka "unsigned long *")
//! says load_bytes_missing: argument of type "uint64_t *" (aka "unsigned long *") is incompatible with parameter of type "uint32_t" (aka "unsigned int")
//! says load_misspelt: identifier "__lgd" is undefined
//! needs tma
//! legal T>=1
//! kernel grid=min(T,SMS*blocks_per_sm) block=THREADS smem=STAGES*D*e+cdiv(STAGES*8+THREADS/32*8,128)*128 regs=32 read=2*e*T*D once=e*(T+1)*D write=e*T*D inflight=(STAGES-1)*D*e ops=T*D*7+T*THREADS*100 sfu=T*THREADS chain=cdiv(D,THREADS*8)*110+5*25+120+LATL2 tiles=T
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 2 3 4 6
constexpr int STAGES = 4;  // rows in the ring
//! param 1 2 4 6
constexpr int blocks_per_sm = 4;

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __device__ __forceinline__ uint32_t smem_addr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bar_init(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_addr(bar)), "r"(count) : "memory");
}
static __device__ __forceinline__ void bar_expect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_addr(bar)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t* bar, uint32_t phase) {
  uint32_t done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(smem_addr(bar)), "r"(phase) : "memory");
  } while (done == 0);
}
static __device__ __forceinline__ void bulk_load(void* dst, const void* src, uint32_t bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   smem_addr(dst)), "l"(src), "r"(bytes), "r"(smem_addr(bar)) : "memory");
}

static __global__ void __launch_bounds__(THREADS)
rmsnorm_kernel(const elem* x, const elem* w, elem* y, int T, int D, float eps) {
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ __align__(8) uint64_t full[STAGES];
  __shared__ float part[2][THREADS / 32];  // two sets: one barrier per row is enough
  const int n = D / 8;
  const uint32_t bytes = D * (uint32_t)sizeof(elem);
  const uint4* wr = (const uint4*)w;
  if (threadIdx.x == 0) {
    //! fault init_arity compile: for (int s = 0; s < STAGES; ++s) bar_init(&full[s]);
    for (int s = 0; s < STAGES; ++s) bar_init(&full[s], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int s = 0; s < STAGES - 1; ++s) {
      const int row = blockIdx.x + s * gridDim.x;
      if (row >= T) break;
      bar_expect(&full[s], bytes);
      bulk_load(ring + (size_t)s * n, x + (size_t)row * D, bytes, &full[s]);
    }
  }
  __syncthreads();
  int slot = 0, odd = 0;
  uint32_t phase = 0;
  for (int row = blockIdx.x; row < T; row += gridDim.x) {
    //! fault barrier_by_value compile: bar_wait(full[slot], phase);
    bar_wait(&full[slot], phase);
    const uint4* buf = ring + (size_t)slot * n;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += THREADS) {
      uint4 v = buf[i];
      const elem2* h = (const elem2*)&v;
#pragma unroll
      //! fault three_of_four wrong: for (int k = 0; k < 3; ++k) {
      for (int k = 0; k < 4; ++k) {
        float2 f = widen(h[k]);
        sum = fmaf(f.x, f.x, fmaf(f.y, f.y, sum));
      }
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) part[odd][threadIdx.x / 32] = sum;
    __syncthreads();  // also: everyone is done with the slot of the row before
    if (threadIdx.x == 0) {
      const int next = row + (STAGES - 1) * gridDim.x;
      const int ahead = slot == 0 ? STAGES - 1 : slot - 1;
      if (next < T) {
        bar_expect(&full[ahead], bytes);
        //! fault load_bytes_missing compile: bulk_load(ring + (size_t)ahead * n, x + (size_t)next * D, &full[ahead]);
        bulk_load(ring + (size_t)ahead * n, x + (size_t)next * D, bytes, &full[ahead]);
      }
    }
    float total = 0.f;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) total += part[odd][i];
    odd ^= 1;
    //! fault eps_left_out wrong: const float inv = rsqrtf(total / D);
    //! shows eps_left_out: nonfinite
    //! fault half_mean wrong: const float inv = rsqrtf(total / (D / 2) + eps);
    const float inv = rsqrtf(total / D + eps);
    uint4* yr = (uint4*)(y + (size_t)row * D);
    //! fault tail_vectors_unwritten wrong when D%(THREADS*8)!=0: for (int i = threadIdx.x; i + THREADS - (int)threadIdx.x <= n; i += THREADS) {
    //! shows tail_vectors_unwritten: unwritten
    for (int i = threadIdx.x; i < n; i += THREADS) {
      //! fault load_misspelt compile: uint4 v = buf[i], g = __lgd(wr + i), out;
      uint4 v = buf[i], g = __ldg(wr + i), out;
      const elem2 *a = (const elem2*)&v, *b = (const elem2*)&g;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float2 f = widen(a[k]), u = widen(b[k]);
        //! fault inverse_twice wrong: ((elem2*)&out)[k] = narrow(f.x * inv * inv * u.x, f.y * inv * inv * u.y);
        ((elem2*)&out)[k] = narrow(f.x * inv * u.x, f.y * inv * u.y);
      }
      __stcs(yr + i, out);
    }
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  }
}

extern "C" cudaError_t rmsnorm(const elem* x, const elem* w, elem* y, int T, int D, float eps, void* workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
  if (D % 8 != 0) return cudaErrorNotSupported;
  int dev = 0, sms = 0;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  const int smem = STAGES * D * (int)sizeof(elem);
  cudaError_t e = cudaFuncSetAttribute(rmsnorm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  if (e != cudaSuccess) return e;
  const int grid = T < sms * blocks_per_sm ? T : sms * blocks_per_sm;
  rmsnorm_kernel<<<grid, THREADS, smem, stream>>>(x, w, y, T, D, eps);
  return cudaGetLastError();
}

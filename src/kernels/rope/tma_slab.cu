// Rotary embedding on a persistent grid with bulk copies both ways: all heads of a token arrive in shared memory by one
// instruction, its table row by another; they are rotated in place and leave by a third while later tokens arrive.
#include <cuda_runtime.h>
#include <cstdint>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea all heads of a token moved by bulk copies and rotated in place in shared memory
//! says expect_operands: argument of type "uint32_t" (aka "unsigned int") is incompatible with parameter of type "uint64_t *" (aka "unsigned long *")
//! says angles_const_lost: a value of type "const float *" cannot be used to initialize an entity of type "float *"
//! says pointer_difference: expression must have integral or unscoped enum type
//! says template_without_count: no instance of function template "bulk_wait_read" matches the argument list
//! needs tma
//! legal H*D<=100000
//! kernel grid=min(T,SMS*blocks_per_sm) block=THREADS smem=STAGES*(H*D*e+D*4)+128 regs=32 read=e*T*H*D+T*D*4 once=e*T*H*D+4*D*min(T,8192)+4*T write=e*T*H*D inflight=(STAGES-1)*H*D*e ops=T*H*(D/16)*110+T*THREADS*40 chain=cdiv(H*(D/16),THREADS)*170+140 tiles=T
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512
constexpr int THREADS = 256;
//! param 2 3 4 6
constexpr int STAGES = 3;  // tokens in the ring
//! param 1 2 3 4
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
static __device__ __forceinline__ void bulk_store(void* dst, const void* src, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(smem_addr(src)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int N> static __device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
static __device__ __forceinline__ void async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

static __global__ void __launch_bounds__(THREADS)
rope_kernel(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D) {
  extern __shared__ __align__(128) uint8_t ring[];
  __shared__ __align__(8) uint64_t full[STAGES];
  const uint32_t heads_bytes = (uint32_t)H * D * sizeof(elem), row_bytes = D * (uint32_t)sizeof(float);
  const uint32_t slot_bytes = heads_bytes + row_bytes;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) bar_init(&full[s], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int s = 0; s < STAGES - 1; ++s) {
      const int t = blockIdx.x + s * gridDim.x;
      if (t >= T) break;
      uint8_t* dst = ring + (size_t)s * slot_bytes;
      //! fault expect_operands compile: bar_expect(slot_bytes, &full[s]);
      bar_expect(&full[s], slot_bytes);
      bulk_load(dst, x + (size_t)t * H * D, heads_bytes, &full[s]);
      //! fault position_is_token wrong: bulk_load(dst + heads_bytes, table + (size_t)t * D, row_bytes, &full[s]);
      bulk_load(dst + heads_bytes, table + (size_t)pos[t] * D, row_bytes, &full[s]);
    }
  }
  __syncthreads();
  const int per_head = D / 16, half = D / 2;
  int slot = 0;
  uint32_t phase = 0;
  for (int t = blockIdx.x; t < T; t += gridDim.x) {
    const int next = t + (STAGES - 1) * gridDim.x;
    int next_pos = 0;
    // read before the work below, used after it
    if (threadIdx.x == 0 && next < T) next_pos = pos[next];
    uint8_t* buf = ring + (size_t)slot * slot_bytes;
    elem* xs = (elem*)buf;
    //! fault angles_const_lost compile: float* angles = (const float*)(buf + heads_bytes);
    const float* angles = (const float*)(buf + heads_bytes);
    bar_wait(&full[slot], phase);
    //! fault last_head_left_out wrong: for (int i = threadIdx.x; i < (H - 1) * per_head; i += THREADS) {
    for (int i = threadIdx.x; i < H * per_head; i += THREADS) {
      const int col = i % per_head * 8;
      uint4* p = (uint4*)(xs + i / per_head * D + col);
      //! fault pointer_difference compile: uint4* q = p + xs + half;
      uint4* q = (uint4*)(xs + i / per_head * D + col + half);
      uint4 lo = *p, hi = *q, a, b;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 f = widen(((const elem2*)&lo)[k]), g = widen(((const elem2*)&hi)[k]);
        //! fault angles_of_first_lanes wrong when D>16: const float2 c = *(const float2*)(angles + 2 * k), s = *(const float2*)(angles + half + 2 * k);
        const float2 c = *(const float2*)(angles + col + 2 * k), s = *(const float2*)(angles + half + col + 2 * k);
        //! fault sine_sign wrong: ((elem2*)&a)[k] = narrow(f.x * c.x + g.x * s.x, f.y * c.y + g.y * s.y);
        ((elem2*)&a)[k] = narrow(f.x * c.x - g.x * s.x, f.y * c.y - g.y * s.y);
        ((elem2*)&b)[k] = narrow(g.x * c.x + f.x * s.x, g.y * c.y + f.y * s.y);
      }
      *p = a;
      //! fault second_half_kept wrong:
      *q = b;
    }
    async_fence();  // the bulk store reads through the async proxy
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(y + (size_t)t * H * D, buf, heads_bytes);
      if (next < T) {
        const int ahead = slot == 0 ? STAGES - 1 : slot - 1;
        uint8_t* dst = ring + (size_t)ahead * slot_bytes;
        //! fault template_without_count compile: bulk_wait_read(1);
        bulk_wait_read<1>();  // the store of the token before has left its slot
        bar_expect(&full[ahead], slot_bytes);
        bulk_load(dst, x + (size_t)next * H * D, heads_bytes, &full[ahead]);
        bulk_load(dst + heads_bytes, table + (size_t)next_pos * D, row_bytes, &full[ahead]);
      }
    }
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  }
  if (threadIdx.x == 0) bulk_wait_read<0>();  // shared memory must outlive the stores
}

extern "C" cudaError_t rope(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D,
                            void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (D % 16 != 0 || (size_t)H * D > 100000) return cudaErrorNotSupported;
  int dev = 0, sms = 0;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  const int smem = STAGES * (H * D * (int)sizeof(elem) + D * (int)sizeof(float));
  cudaError_t e = cudaFuncSetAttribute(rope_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  if (e != cudaSuccess) return e;
  const int grid = T < sms * blocks_per_sm ? T : sms * blocks_per_sm;
  rope_kernel<<<grid, THREADS, smem, stream>>>(x, pos, table, y, T, H, D);
  return cudaGetLastError();
}

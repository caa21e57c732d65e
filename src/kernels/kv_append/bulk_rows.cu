// Paged cache append by bulk copies alone: each warp keeps a ring of tokens in shared memory, one lane fetches all
// heads of k and of v by one instruction each, and every lane sends its heads to the page by one instruction per row.
#include <cuda_runtime.h>
#include <cstdint>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a ring of tokens per warp, rows moved by bulk copies alone
//! says constraint_class: asm operand type size(8) does not match type/size implied by constraint 'r'
//! says size_left_out: argument of type "uint64_t *" (aka "unsigned long *") is incompatible with parameter of type "uint32_t" (aka "unsigned int")
//! says lambda_arity: function "lambda [](int, int)->void" cannot be called with the given argument list
//! says narrow_const: identifier "head" is undefined
//! says ahead_const: identifier "ahead" is undefined
//! dtypes fp16 bf16
//! needs tma
//! legal HKV*D<=65536
//! kernel grid=min(cdiv(T,WARPS),SMS*blocks_per_sm) block=WARPS*32 smem=WARPS*STAGES*HKV*D*4+cdiv(WARPS*STAGES*8,128)*128 regs=56 read=4*T*HKV*D+4*T write=4*T*HKV*D inflight=WARPS*(STAGES-1)*HKV*D*4 ops=T*32*(60+cdiv(HKV,32)*40) chain=LATL2+cdiv(HKV,32)*160+120 tiles=cdiv(T,WARPS)
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 1 2 4 8
constexpr int WARPS = 2;  // warps per block, each with a ring of its own
//! param 2 3 4 6
constexpr int STAGES = 4;  // tokens in a ring
//! param 1 2 4 8
constexpr int blocks_per_sm = 4;

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
  //! fault constraint_class compile: asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src), "r"(bytes)
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(smem_addr(src)), "r"(bytes)
               : "memory");
}
static __device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> static __device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

static __global__ void __launch_bounds__(WARPS * 32)
append_kernel(const elem* k, const elem* v, const int* slot, elem* kc, elem* vc, int T, int HKV, int D, int P) {
  extern __shared__ __align__(128) uint8_t raw[];
  __shared__ __align__(8) uint64_t full[WARPS][STAGES];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = HKV * D;  // elements of a token
  const uint32_t bytes = row * (uint32_t)sizeof(elem);
  elem* ring = (elem*)raw + (size_t)warp * STAGES * 2 * row;  // per stage: k of a token, then v
  const int step = gridDim.x * WARPS;
  int t = blockIdx.x * WARPS + warp;
  auto request = [&](int s, int token) {
    bar_expect(&full[warp][s], 2 * bytes);
    bulk_load(ring + (size_t)s * 2 * row, k + (size_t)token * row, bytes, &full[warp][s]);
    //! fault value_from_key wrong: bulk_load(ring + (size_t)s * 2 * row + row, k + (size_t)token * row, bytes, &full[warp][s]);
    //! fault size_left_out compile: bulk_load(ring + (size_t)s * 2 * row + row, v + (size_t)token * row, &full[warp][s]);
    bulk_load(ring + (size_t)s * 2 * row + row, v + (size_t)token * row, bytes, &full[warp][s]);
  };
  if (lane == 0) {
    for (int s = 0; s < STAGES; ++s) bar_init(&full[warp][s], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    //! fault lambda_arity compile: for (int s = 0; s < STAGES - 1 && t + s * step < T; ++s) request(t + s * step);
    for (int s = 0; s < STAGES - 1 && t + s * step < T; ++s) request(s, t + s * step);
  }
  __syncwarp();
  int stage = 0;
  uint32_t phase = 0;
  for (; t < T; t += step) {
    const int at = __ldg(slot + t);
    bar_wait(&full[warp][stage], phase);
    //! fault skip_left_out wrong: if (at >= -1) {
    if (at >= 0) {
      const elem* src = ring + (size_t)stage * 2 * row;
      //! fault token_major_page wrong when HKV>1&&P>1&&T>=16: const size_t page = (size_t)at * HKV * D, head = D;
      //! fault narrow_const compile: const size_t page = ((size_t)(at / P) * HKV * P + at % P) * D; head = (size_t)P * D;
      const size_t page = ((size_t)(at / P) * HKV * P + at % P) * D, head = (size_t)P * D;
      //! fault first_32_heads wrong when HKV>32: for (int h = lane; h < min(HKV, 32); h += 32) {
      //! fault last_head_skipped wrong when HKV>=2: for (int h = lane; h + 1 < HKV; h += 32) {
      for (int h = lane; h < HKV; h += 32) {
        bulk_store(kc + page + h * head, src + h * D, D * (uint32_t)sizeof(elem));
        bulk_store(vc + page + h * head, src + row + h * D, D * (uint32_t)sizeof(elem));
      }
    }
    bulk_commit();
    const int next = t + (STAGES - 1) * step;
    if (next < T) {
      bulk_wait_read<1>();  // this lane's stores of the token before have left their stage
      __syncwarp();
      //! fault ahead_const compile: if (lane == 0) request(ahead, next);
      if (lane == 0) request(stage == 0 ? STAGES - 1 : stage - 1, next);
    }
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
  bulk_wait_read<0>();  // shared memory must outlive the stores
}

extern "C" cudaError_t kv_append(const elem* k, const elem* v, const int* slot, elem* kc, elem* vc, int T, int HKV,
                                 int D, int P, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (D % 16 != 0 || (size_t)HKV * D > 65536) return cudaErrorNotSupported;
  int dev = 0, sms = 0;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  const int smem = WARPS * STAGES * 2 * HKV * D * (int)sizeof(elem);
  cudaError_t e = cudaFuncSetAttribute(append_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  if (e != cudaSuccess) return e;
  const int blocks = (T + WARPS - 1) / WARPS, most = sms * blocks_per_sm;
  append_kernel<<<blocks < most ? blocks : most, WARPS * 32, smem, stream>>>(k, v, slot, kc, vc, T, HKV, D, P);
  return cudaGetLastError();
}

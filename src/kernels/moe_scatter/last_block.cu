// One pass counts and scans without a grid barrier: the block that draws the last ticket forms the prefix sums and
// clears the counters for the next call, so that no memset and no scan kernel is launched. Then a warp per assignment
// takes its place and copies the row in 16-byte vectors.
//! idea counting and scan fused by a last-block ticket
//! says atomic_name: argument of type "int *" is incompatible with parameter of type "unsigned int *"
//! says member_access: expression must have class type but it has type "Scratch *"
//! says const_cast: reinterpret_cast cannot cast away const or other type qualifiers
//! dtypes fp16 bf16
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 128 256 512
constexpr int kCountThreads = 256;
//! param 1 4 8 16
constexpr int kPerThread = 4;   // assignments counted per thread
//! param 2 4 8 16
constexpr int kWarps = 4;       // rows copied per block
//! param 1 2 4 8
constexpr int kUnroll = 4;      // 16-byte loads in flight per lane
constexpr int kMaxExperts = 512;
constexpr int kCountItems = kCountThreads * kPerThread;

// Counters are zero before and after every call.
struct Scratch {
  int counts[kMaxExperts];
  int cursor[kMaxExperts];
  int ticket;
};

//! kernel grid=cdiv(T*K,kCountThreads*kPerThread) block=kCountThreads smem=2049 regs=26 read=4*T*K+4*E write=8*E inflight=kCountThreads*4*min(kPerThread,4) ops=T*K*12+cdiv(T*K,kCountThreads*kPerThread)*E*8+E*30 chain=LAT+3*LATL2+cdiv(kPerThread,4)*60+120+cdiv(E,32)*(LATL2+150)
static __global__ __launch_bounds__(kCountThreads) void count_kernel(const int* __restrict__ ids, Scratch* s,
                                                                     int* offsets, int TK, int E) {
  __shared__ int hist[kMaxExperts];
  __shared__ bool last;
  for (int e = threadIdx.x; e < E; e += kCountThreads) hist[e] = 0;
  __syncthreads();
  int begin = blockIdx.x * kCountItems;
#pragma unroll 4
  for (int j = 0; j < kPerThread; ++j) {
    int i = begin + j * kCountThreads + threadIdx.x;
    //! fault atomic_name compile: if (i < TK) atomicInc(&hist[ids[i]]);
    if (i < TK) atomicAdd(&hist[ids[i]], 1);
  }
  __syncthreads();
  //! fault last_expert wrong: for (int e = threadIdx.x; e < E - 1; e += kCountThreads)
  for (int e = threadIdx.x; e < E; e += kCountThreads)
    if (hist[e]) atomicAdd(&s->counts[e], hist[e]);
  __threadfence();
  __syncthreads();
  //! fault member_access compile: if (threadIdx.x == 0) last = atomicAdd(&s.ticket, 1) == (int)gridDim.x - 1;
  if (threadIdx.x == 0) last = atomicAdd(&s->ticket, 1) == (int)gridDim.x - 1;
  __syncthreads();
  if (!last || threadIdx.x >= 32) return;
  __threadfence();
  int lane = threadIdx.x, carry = 0;
  for (int e0 = 0; e0 < E; e0 += 32) {
    int e = e0 + lane;
    int n = e < E ? atomicExch(&s->counts[e], 0) : 0, sum = n;
    for (int d = 1; d < 32; d *= 2) {
      int v = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum += v;
    }
    //! fault inclusive wrong: if (e < E) s->cursor[e] = carry + sum - n, offsets[e] = carry + sum;
    if (e < E) offsets[e] = s->cursor[e] = carry + sum - n;
    //! fault no_carry wrong when E > 32 && T * K >= 512: carry = __shfl_sync(0xffffffffu, sum, 31);
    carry += __shfl_sync(0xffffffffu, sum, 31);
  }
  if (lane == 0) {
    offsets[E] = carry;
    s->ticket = 0;
  }
}

//! kernel grid=cdiv(T*K,kWarps) block=32*kWarps regs=24+4*kUnroll read=T*K*(2*D+4) once=T*(2*D+4*K) write=T*K*(2*D+4) inflight=kWarps*512*kUnroll ops=T*K*(D+32*40) chain=LAT+LATL2+50+cdiv(D,256*kUnroll)*(LAT+40)
static __global__ __launch_bounds__(kWarps * 32) void copy_kernel(const elem* __restrict__ x,
                                                                  const int* __restrict__ ids, elem* __restrict__ y,
                                                                  Scratch* s, int* pos, int TK, int K, int D) {
  int lane = threadIdx.x % 32;
  int i = blockIdx.x * kWarps + threadIdx.x / 32;
  if (i >= TK) return;
  int place = 0;
  if (lane == 0) {
    place = atomicAdd(&s->cursor[ids[i]], 1);
    //! fault pos_column wrong when K >= 2: pos[i - i % K + K - 1] = place;
    //! shows pos_column: unwritten
    pos[i] = place;
  }
  place = __shfl_sync(0xffffffffu, place, 0);
  //! fault const_cast compile: uint4* from = reinterpret_cast<uint4*>(x + (size_t)(i / K) * D);
  const uint4* from = reinterpret_cast<const uint4*>(x + (size_t)(i / K) * D);
  uint4* to = reinterpret_cast<uint4*>(y + (size_t)place * D);
  //! fault unit_bytes wrong: int units = D / 16;
  //! shows unit_bytes: unwritten
  int units = D / 8;
  for (int u0 = lane; u0 < units; u0 += 32 * kUnroll) {
    uint4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (u0 + 32 * u < units) v[u] = __ldg(from + u0 + 32 * u);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (u0 + 32 * u < units) to[u0 + 32 * u] = v[u];
  }
}

extern "C" size_t moe_scatter_workspace(int T, int E, int K, int D) {
  (void)T;
  (void)E;
  (void)K;
  (void)D;
  return sizeof(Scratch);
}

extern "C" cudaError_t moe_scatter(const elem* x, const int* ids, elem* y, int* offsets, int* pos, int T, int E, int K,
                                   int D, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (T < 1 || E > kMaxExperts || K > E || D % 8) return cudaErrorNotSupported;
  if (workspace_bytes < sizeof(Scratch)) return cudaErrorInvalidValue;
  Scratch* s = static_cast<Scratch*>(workspace);
  int TK = T * K;
  count_kernel<<<(TK + kCountItems - 1) / kCountItems, kCountThreads, 0, stream>>>(ids, s, offsets, TK, E);
  copy_kernel<<<(TK + kWarps - 1) / kWarps, kWarps * 32, 0, stream>>>(x, ids, y, s, pos, TK, K, D);
  return cudaGetLastError();
}

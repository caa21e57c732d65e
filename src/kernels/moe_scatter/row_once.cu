// One block sorts all assignments in shared memory and writes every position; then each token's row is read once and
// written K times from registers, so that the copy reads T rows and not T*K.
//! idea one read of a row with K writes
//! says shuffle_name: identifier "__shfl_upward_sync" is undefined
//! says vector_load: no instance of overloaded function "__ldg" matches the argument list
//! says unit_name: identifier "unit" is undefined
//! dtypes fp16 bf16
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 256 512 1024
constexpr int kSortThreads = 1024;
//! param 32 64 128 256
constexpr int kLanes = 64;       // threads per token
//! param 128 256 512
constexpr int kThreads = 256;    // threads of a copying block
//! param 1 2 4 8
constexpr int kUnroll = 2;       // 16-byte loads in flight per thread
//! legal kThreads >= kLanes
constexpr int kTokens = kThreads / kLanes;
constexpr int kMaxExperts = 512;

//! kernel grid=1 block=kSortThreads smem=2048 regs=32 read=8*T*K once=4*T*K write=4*T*K+4*E inflight=kSortThreads*16 ops=T*K*30+E*20 chain=2*cdiv(T*K,4*kSortThreads)*(LATL2+4*60)+LAT+cdiv(E,32)*160+120
static __global__ __launch_bounds__(kSortThreads) void sort_kernel(const int* __restrict__ ids,
                                                                   int* __restrict__ offsets, int* __restrict__ pos,
                                                                   int TK, int E) {
  __shared__ int next[kMaxExperts];
  for (int e = threadIdx.x; e < E; e += kSortThreads) next[e] = 0;
  __syncthreads();
#pragma unroll 4
  //! fault tail_ids wrong when T * K % kSortThreads != 0: for (int i = threadIdx.x; i < TK / kSortThreads * kSortThreads; i += kSortThreads) atomicAdd(&next[ids[i]], 1);
  //! shows tail_ids: unwritten
  for (int i = threadIdx.x; i < TK; i += kSortThreads) atomicAdd(&next[ids[i]], 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    int lane = threadIdx.x, carry = 0;
    for (int e0 = 0; e0 < E; e0 += 32) {
      int e = e0 + lane, n = e < E ? next[e] : 0, sum = n;
      for (int d = 1; d < 32; d *= 2) {
        //! fault shuffle_name compile: int v = __shfl_upward_sync(0xffffffffu, sum, d);
        int v = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= d) sum += v;
      }
      //! fault inclusive wrong: if (e < E) next[e] = carry + sum - n, offsets[e] = carry + sum;
      if (e < E) next[e] = offsets[e] = carry + sum - n;
      carry += __shfl_sync(0xffffffffu, sum, 31);
    }
    //! fault end_offset wrong: if (lane == 0) offsets[E - 1] = carry;
    //! shows end_offset: unwritten
    if (lane == 0) offsets[E] = carry;
  }
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < TK; i += kSortThreads) pos[i] = atomicAdd(&next[ids[i]], 1);
}

//! kernel grid=cdiv(T,kThreads/kLanes) block=kThreads regs=24+5*kUnroll read=T*(2*D+4*K*cdiv(D,8*kUnroll*kLanes)) once=T*(2*D+4*K) write=T*K*2*D inflight=kThreads*16*kUnroll ops=T*D*(20+10*K)/8+T*kLanes*20 chain=LATL2+cdiv(D,8*kLanes*kUnroll)*(LAT+K*20+40)
static __global__ __launch_bounds__(kThreads) void copy_kernel(const elem* __restrict__ x, const int* __restrict__ pos,
                                                               elem* __restrict__ y, int T, int K, int D) {
  int t = blockIdx.x * kTokens + threadIdx.x / kLanes;
  if (t >= T) return;
  int units = D / 8;
  const uint4* from = reinterpret_cast<const uint4*>(x + (size_t)t * D);
  for (int u0 = threadIdx.x % kLanes; u0 < units; u0 += kLanes * kUnroll) {
    uint4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      //! fault vector_load compile: if (u0 + kLanes * u < units) v[u] = __ldg(from, u0 + kLanes * u);
      if (u0 + kLanes * u < units) v[u] = __ldg(from + u0 + kLanes * u);
    //! fault copies wrong when K >= 2: for (int k = 0; k < K - 1; ++k) {
    //! shows copies: unwritten
    for (int k = 0; k < K; ++k) {
      //! fault unit_name compile: uint4* to = reinterpret_cast<uint4*>(y) + (size_t)__ldg(pos + (size_t)t * K + k) * unit;
      uint4* to = reinterpret_cast<uint4*>(y + (size_t)__ldg(pos + (size_t)t * K + k) * D);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (u0 + kLanes * u < units) to[u0 + kLanes * u] = v[u];
    }
  }
}

extern "C" cudaError_t moe_scatter(const elem* x, const int* ids, elem* y, int* offsets, int* pos, int T, int E, int K,
                                   int D, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (T < 1 || E > kMaxExperts || K > E || D % 8) return cudaErrorNotSupported;
  sort_kernel<<<1, kSortThreads, 0, stream>>>(ids, offsets, pos, T * K, E);
  copy_kernel<<<(T + kTokens - 1) / kTokens, kThreads, 0, stream>>>(x, pos, y, T, K, D);
  return cudaGetLastError();
}

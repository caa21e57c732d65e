// Shared-memory histograms take the atomics out of global memory: a block counts its assignments locally and adds one
// number per expert. The copying blocks reserve their places in the same way, one global atomic per block and expert,
// then a warp copies each row in 16-byte vectors.
//! idea shared-memory histograms and a warp per row
//! says shared_name: identifier "histogram" is undefined
//! says shuffle_args: no instance of overloaded function "__shfl_up_sync" matches the argument list
//! says missing_bracket: expected a "]"
//! dtypes fp16 bf16
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 64 128 256 512
constexpr int kThreads = 256;  // of a copying block
//! param 8 16 32 64 128
constexpr int kItems = 32;     // assignments per copying block
//! param 1 2 4 8
constexpr int kUnroll = 4;     // 16-byte loads in flight per lane
constexpr int kMaxExperts = 512;
constexpr int kCountItems = 2048;

//! kernel grid=cdiv(T*K,2048) block=512 smem=2048 regs=22 read=4*T*K inflight=512*16 ops=T*K*12+cdiv(T*K,2048)*E*8 chain=LAT+LATL2+4*40+90
static __global__ __launch_bounds__(512) void count_kernel(const int* __restrict__ ids, int* counts, int TK, int E) {
  __shared__ int hist[kMaxExperts];
  //! fault shared_name compile: for (int e = threadIdx.x; e < E; e += 512) histogram[e] = 0;
  for (int e = threadIdx.x; e < E; e += 512) hist[e] = 0;
  __syncthreads();
  //! fault tail_block wrong when T * K % 2048 != 0: int begin = blockIdx.x * kCountItems, end = min(TK / kCountItems * kCountItems, begin + kCountItems);
  //! shows tail_block: unwritten
  int begin = blockIdx.x * kCountItems, end = min(TK, begin + kCountItems);
  for (int i = begin + threadIdx.x; i < end; i += 512) atomicAdd(&hist[ids[i]], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < E; e += 512)
    if (hist[e]) atomicAdd(&counts[e], hist[e]);
}

//! kernel grid=1 block=512 smem=64 regs=28 read=4*E write=8*E+4 inflight=512*4 ops=512*40 chain=LATL2+12*25+60
static __global__ __launch_bounds__(512) void scan_kernel(const int* counts, int* cursor, int* offsets, int E) {
  __shared__ int warps[16];
  int e = threadIdx.x, lane = e % 32;
  int n = e < E ? counts[e] : 0, sum = n;
  for (int d = 1; d < 32; d *= 2) {
    //! fault shuffle_args compile: int v = __shfl_up_sync(sum, d);
    int v = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += v;
  }
  if (lane == 31) warps[e / 32] = sum;
  __syncthreads();
  int before = 0;
  //! fault carry_range wrong when E > 32 && T * K >= 512: for (int w = 1; w < e / 32; ++w) before += warps[w];
  //! shows carry_range: unwritten
  for (int w = 0; w < e / 32; ++w) before += warps[w];
  sum += before;
  if (e < E) {
    //! fault inclusive wrong: cursor[e] = sum - n, offsets[e] = sum;
    offsets[e] = cursor[e] = sum - n;
    if (e == E - 1) offsets[E] = sum;
  }
}

//! kernel grid=cdiv(T*K,kItems) block=kThreads smem=4096+8*kItems regs=24+4*kUnroll read=T*K*(2*D+4)+cdiv(T*K,kItems)*E*4 once=T*(2*D+4*K) write=T*K*(2*D+4) inflight=kThreads*16*kUnroll ops=T*K*D+T*K*60+cdiv(T*K,kItems)*(E*8+kThreads*30) chain=LAT+2*LATL2+150+cdiv(kItems*32,kThreads)*cdiv(D,256*kUnroll)*(LAT+40)
static __global__ __launch_bounds__(kThreads) void copy_kernel(const elem* __restrict__ x, const int* __restrict__ ids,
                                                               elem* __restrict__ y, int* cursor, int* pos, int TK,
                                                               int E, int K, int D) {
  __shared__ int hist[kMaxExperts], base[kMaxExperts], place[kItems], rank[kItems];
  int begin = blockIdx.x * kItems, n = min(kItems, TK - begin);
  for (int e = threadIdx.x; e < E; e += kThreads) hist[e] = 0;
  __syncthreads();
  for (int j = threadIdx.x; j < n; j += kThreads) rank[j] = atomicAdd(&hist[ids[begin + j]], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < E; e += kThreads)
    if (hist[e]) base[e] = atomicAdd(&cursor[e], hist[e]);
  __syncthreads();
  for (int j = threadIdx.x; j < n; j += kThreads) {
    //! fault missing_bracket compile: place[j] = base[ids[begin + j] + rank[j];
    place[j] = base[ids[begin + j]] + rank[j];
    //! fault local_index wrong when T * K > kItems: pos[j] = place[j];
    //! shows local_index: unwritten
    pos[begin + j] = place[j];
  }
  __syncthreads();
  int lane = threadIdx.x % 32, units = D / 8;
  for (int j = threadIdx.x / 32; j < n; j += kThreads / 32) {
    //! fault row_index wrong when K >= 2 && T >= 2: const uint4* from = reinterpret_cast<const uint4*>(x + (size_t)((begin + j) % (TK / K)) * D);
    const uint4* from = reinterpret_cast<const uint4*>(x + (size_t)((begin + j) / K) * D);
    uint4* to = reinterpret_cast<uint4*>(y + (size_t)place[j] * D);
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
}

extern "C" size_t moe_scatter_workspace(int T, int E, int K, int D) {
  (void)T;
  (void)K;
  (void)D;
  return 2 * (size_t)E * sizeof(int);
}

extern "C" cudaError_t moe_scatter(const elem* x, const int* ids, elem* y, int* offsets, int* pos, int T, int E, int K,
                                   int D, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (T < 1 || E > kMaxExperts || K > E || D % 8) return cudaErrorNotSupported;
  if (workspace_bytes < moe_scatter_workspace(T, E, K, D)) return cudaErrorInvalidValue;
  int* counts = static_cast<int*>(workspace);
  int* cursor = counts + E;
  int TK = T * K;
  cudaError_t e = cudaMemsetAsync(counts, 0, E * sizeof(int), stream);
  if (e != cudaSuccess) return e;
  count_kernel<<<(TK + kCountItems - 1) / kCountItems, 512, 0, stream>>>(ids, counts, TK, E);
  scan_kernel<<<1, 512, 0, stream>>>(counts, cursor, offsets, E);
  copy_kernel<<<(TK + kItems - 1) / kItems, kThreads, 0, stream>>>(x, ids, y, cursor, pos, TK, E, K, D);
  return cudaGetLastError();
}

// Three kernels: a thread per assignment counts the experts with global atomics, one thread forms the prefix sums,
// and a block per assignment takes the next position of its expert and copies the token's row element by element.
//! idea count, scan and copy in three kernels
//! says atomic_value: no instance of overloaded function "atomicAdd" matches the argument list
//! says total_name: identifier "total" is undefined
//! says const_copy: no operator "=" matches these operands
//! dtypes fp16 bf16
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 32 64 128 256
constexpr int kThreads = 128;  // threads per copied row

//! kernel grid=cdiv(T*K,256) block=256 regs=12 read=4*T*K inflight=256*4 ops=T*K*12 chain=LAT+2*LATL2
static __global__ void count_kernel(const int* __restrict__ ids, int* counts, int TK, int E) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= TK) return;
  //! fault last_expert wrong: if (ids[i] < E - 1) atomicAdd(&counts[ids[i]], 1);
  //! fault atomic_value compile: if (ids[i] < E) atomicAdd(counts[ids[i]], 1);
  if (ids[i] < E) atomicAdd(&counts[ids[i]], 1);
}

//! kernel grid=1 block=1 regs=24 read=4*E write=8*E inflight=4*4 ops=E*8 chain=E*60+LATL2*cdiv(E,4)
static __global__ void scan_kernel(const int* counts, int* cursor, int* offsets, int E) {
  int sum = 0;
  for (int e = 0; e < E; ++e) {
    //! fault inclusive wrong: cursor[e] = sum, offsets[e] = sum + counts[e];
    offsets[e] = cursor[e] = sum;
    sum += counts[e];
  }
  //! fault total_name compile: offsets[E] = total;
  offsets[E] = sum;
}

//! kernel grid=T*K block=kThreads smem=4 regs=24 read=T*K*(2*D+8) once=T*(2*D+4*K) write=T*K*(2*D+4) inflight=kThreads*2*4 ops=T*K*(5*D+20*kThreads) chain=3*LATL2+30+cdiv(D,4*kThreads)*(LAT+40)
static __global__ void copy_kernel(const elem* __restrict__ x, const int* __restrict__ ids, elem* __restrict__ y,
                                   int* cursor, int* pos, int K, int D) {
  __shared__ int place;
  int i = blockIdx.x;
  if (threadIdx.x == 0) {
    place = atomicAdd(&cursor[ids[i]], 1);
    //! fault pos_shared wrong when K >= 2: pos[i / K * K] = place;
    //! shows pos_shared: unwritten
    pos[i] = place;
  }
  __syncthreads();
  //! fault row_index wrong when K >= 2 && T >= 2: const elem* from = x + (size_t)(i % (gridDim.x / K)) * D;
  const elem* from = x + (size_t)(i / K) * D;
  elem* to = y + (size_t)place * D;
  //! fault half_row wrong: for (int d = threadIdx.x; d < D / 2; d += kThreads) to[d] = from[d];
  //! shows half_row: unwritten
  //! fault const_copy compile: for (int d = threadIdx.x; d < D; d += kThreads) from[d] = to[d];
  for (int d = threadIdx.x; d < D; d += kThreads) to[d] = from[d];
}

extern "C" size_t moe_scatter_workspace(int T, int E, int K, int D) {
  (void)T;
  (void)K;
  (void)D;
  return 2 * (size_t)E * sizeof(int);
}

extern "C" cudaError_t moe_scatter(const elem* x, const int* ids, elem* y, int* offsets, int* pos, int T, int E, int K,
                                   int D, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (T < 1 || E > 512 || K > E || D % 8) return cudaErrorNotSupported;
  if (workspace_bytes < moe_scatter_workspace(T, E, K, D)) return cudaErrorInvalidValue;
  int* counts = static_cast<int*>(workspace);
  int* cursor = counts + E;
  cudaError_t e = cudaMemsetAsync(counts, 0, E * sizeof(int), stream);
  if (e != cudaSuccess) return e;
  count_kernel<<<(T * K + 255) / 256, 256, 0, stream>>>(ids, counts, T * K, E);
  scan_kernel<<<1, 1, 0, stream>>>(counts, cursor, offsets, E);
  copy_kernel<<<T * K, kThreads, 0, stream>>>(x, ids, y, cursor, pos, K, D);
  return cudaGetLastError();
}

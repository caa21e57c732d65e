// The matrix product in double that references of GEMM kinds are made of.
#pragma once

#include "gpurun/ops.cuh"

namespace gpurun {

/// c[m,n] = sum over k of a[m,k] * b[n,k], summed in double: exact for integers, and for all else far closer than any
/// bound asks. a[M,K] and b[N,K] of type e (fp16, bf16, e4m3 or int8; K a multiple of 8, N of 2), c[M,N]; all dense,
/// aligned to 16 bytes.
void product(const void* a, const void* b, Elem e, double* c, int64_t M, int64_t N, int64_t K, cudaStream_t s);

/// The index that a row's only one has in the one-hot families: row m of K columns.
__host__ __device__ constexpr int64_t one_hot(int64_t m, int64_t K) { return (7 * m + 3) % K; }

/// 2^-round(log2(K) / divisor): what keeps sums over K near 1.
float power_scale(int64_t K, int divisor);

}  // namespace gpurun

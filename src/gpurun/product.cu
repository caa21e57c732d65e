#include "gpurun/product.cuh"

#include <cmath>

#include "gpurun/common.cuh"

namespace gpurun {
namespace {

// On the double-precision tensor cores 8192^3 takes some 40 ms on a data-center GPU: no need to look at a part of the
// rows only. A block of 8 warps makes a tile of 128 x 128, a warp 32 x 64 of it, by mma.m8n8k4 of doubles.
constexpr int kTile = 128, kDepth = 16, kChunk = 8;
constexpr int kThreads = 256;
// 20 doubles from row to row: the 4 rows x 4 columns that half a warp reads lie in 16 different pairs of banks.
constexpr int kPitch = kDepth + 4;

/// kChunk elements as they lie in memory.
template <int BYTES>
struct alignas(BYTES) Raw {
  unsigned char byte[BYTES];
};

__device__ __forceinline__ void mma(double (&c)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1])
               : "d"(a), "d"(b));
}

/// Elements k … k+7 of a row; zeros outside the matrix.
template <Elem E, class R>
__device__ __forceinline__ R load_chunk(const void* p, int64_t row, int64_t rows, int64_t k, int64_t K) {
  R r = {};
  if (row < rows && k < K) r = *(const R*)((const char*)p + (row * K + k) * (int64_t)(sizeof(R) / kChunk));
  return r;
}

template <Elem E>
__global__ void __launch_bounds__(kThreads)
product_kernel(const void* a, const void* b, double* c, int64_t M, int64_t N, int64_t K) {
  using R = Raw<kChunk * (E == E_F16 || E == E_BF16 ? 2 : 1)>;
  __shared__ alignas(16) double as[kTile * kPitch], bs[kTile * kPitch];
  const int64_t m0 = (int64_t)blockIdx.y * kTile, n0 = (int64_t)blockIdx.x * kTile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = threadIdx.x / 2, part = threadIdx.x % 2 * kChunk;  // the chunk that this thread brings
  const int wm = warp / 2 * 32, wn = warp % 2 * 64;                  // this warp's part of the tile
  double sum[4][8][2] = {};

  R ra = load_chunk<E, R>(a, m0 + row, M, part, K);
  R rb = load_chunk<E, R>(b, n0 + row, N, part, K);
  for (int64_t k0 = 0; k0 < K; k0 += kDepth) {
    double* to_a = as + row * kPitch + part;
    double* to_b = bs + row * kPitch + part;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      to_a[i] = load_elem(&ra, E, i);
      to_b[i] = load_elem(&rb, E, i);
    }
    __syncthreads();
    ra = load_chunk<E, R>(a, m0 + row, M, k0 + kDepth + part, K);
    rb = load_chunk<E, R>(b, n0 + row, N, k0 + kDepth + part, K);
#pragma unroll
    for (int k = 0; k < kDepth; k += 4) {
      // Lane l holds row (of a) or column (of b) l / 4 at depth l % 4.
      const int at = lane / 4 * kPitch + k + lane % 4;
      double fa[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) fa[i] = as[(wm + 8 * i) * kPitch + at];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const double fb = bs[(wn + 8 * j) * kPitch + at];
#pragma unroll
        for (int i = 0; i < 4; ++i) mma(sum[i][j], fa[i], fb);
      }
    }
    __syncthreads();
  }

  // And of the sum, row l / 4 and columns 2 (l % 4) and the next.
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + wm + 8 * i + lane / 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int64_t n = n0 + wn + 8 * j + lane % 4 * 2;
      if (m < M && n < N) *(double2*)(c + m * N + n) = make_double2(sum[i][j][0], sum[i][j][1]);
    }
  }
}

}  // namespace

void product(const void* a, const void* b, Elem e, double* c, int64_t M, int64_t N, int64_t K, cudaStream_t s) {
  if (K % kChunk || N % 2) trouble("a product of %lld columns, depth %lld", (long long)N, (long long)K);
  // Rows in bands: the grid's second axis ends at 65535.
  constexpr int64_t band = 65535ll * kTile;
  const int width = e == E_F16 || e == E_BF16 ? 2 : 1;
  for (int64_t m = 0; m < M; m += band) {
    const int64_t rows = M - m < band ? M - m : band;
    const dim3 grid((unsigned)((N + kTile - 1) / kTile), (unsigned)((rows + kTile - 1) / kTile));
    const void* from = (const char*)a + m * K * width;
    switch (e) {
      case E_F16: product_kernel<E_F16><<<grid, kThreads, 0, s>>>(from, b, c + m * N, rows, N, K); break;
      case E_BF16: product_kernel<E_BF16><<<grid, kThreads, 0, s>>>(from, b, c + m * N, rows, N, K); break;
      case E_E4M3: product_kernel<E_E4M3><<<grid, kThreads, 0, s>>>(from, b, c + m * N, rows, N, K); break;
      case E_I8: product_kernel<E_I8><<<grid, kThreads, 0, s>>>(from, b, c + m * N, rows, N, K); break;
      default: trouble("no product of element type %d", (int)e);
    }
    check_launch("product");
  }
}

float power_scale(int64_t K, int divisor) {
  return (float)std::ldexp(1.0, -(int)std::lround(std::log2((double)K) / divisor));
}

}  // namespace gpurun

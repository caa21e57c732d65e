// int4_gemv: axes M N K G; x[M,K], w[N,K/2] (two values a byte), s[N,K/G] -> y[M,N]. dtype int4 or
// fp4. An error row is a row of y.
#include "gpurun/common.cuh"
#include "gpurun/cref_int4_gemv.h"
#include "gpurun/product.cuh"

namespace gpurun {
namespace {

enum { X, W, S, Y };

int layout(const Shape& shape, Dtype, Buffer* out) {
  const int64_t M = shape.v[0], N = shape.v[1], K = shape.v[2], G = shape.v[3];
  out[X] = {"x", Role::input, E_F16, M * K};
  out[W] = {"w", Role::input, E_U8, N * (K / 2)};
  out[S] = {"s", Role::input, E_F16, N * (K / G)};
  out[Y] = {"y", Role::output, E_F16, M * N};
  return 4;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// A single one per row, at k = (37m + 5) mod K.
struct OneHot {
  int64_t K;
  __device__ float operator()(int64_t i) const { return i % K == (37 * (i / K) + 5) % K ? 1.f : 0.f; }
};

struct Nibbles {
  uint64_t seed;
  __device__ float operator()(int64_t i) const { return (float)(gen_hash(seed, W, (uint64_t)i) >> 56); }
};

/// 15 for the first half of K, 0 for the rest; K is even, but half of it may be odd.
struct HighThenLow {
  int64_t K;
  __device__ float operator()(int64_t i) const {
    const int64_t k = i % (K / 2) * 2;
    return (k < K / 2 ? 15.f : 0.f) + (k + 1 < K / 2 ? 240.f : 0.f);
  }
};

/// U[0.5, 1.5) * power.
struct Scales {
  uint64_t seed;
  float power;
  __device__ float operator()(int64_t i) const {
    return gen_mul(gen_uniform(gen_hash(seed, S, (uint64_t)i), 0.5f, 1.5f), power);
  }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const int64_t K = in.shape.v[2], nx = in.buffer[X].count, nw = in.buffer[W].count;
  if (f == F2) fill_with(in.ptr[X], E_F16, nx, OneHot{K}, s);
  else if (f == F3) fill_with(in.ptr[X], E_F16, nx, Normal{seed, X, 0.5f, 2.f}, s);
  else fill_with(in.ptr[X], E_F16, nx, Normal{seed, X, 1.f, 0.f}, s);
  if (f == F3) fill_with(in.ptr[W], E_U8, nw, HighThenLow{K}, s);
  else fill_with(in.ptr[W], E_U8, nw, Nibbles{seed}, s);
  fill_with(in.ptr[S], E_F16, in.buffer[S].count, Scales{seed, power_scale(K, 2) * 0.25f}, s);
}

size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(double) * shape.v[0] * shape.v[1]; }

/// Twice the value of a nibble, an integer: q - 8, or the e2m1 number.
__device__ __forceinline__ int twice(int q, bool fp4) {
  if (!fp4) return 2 * (q - 8);
  const int e = q >> 1 & 3, m = q & 1;
  const int size = e ? (2 + m) << (e - 1) : m;
  return q & 8 ? -size : size;
}

constexpr int kRows = 16;  // M at most

/// A warp per n: each lane takes a byte of w at a time, for all rows of x.
__global__ void __launch_bounds__(256)
reference_kernel(const __half* x, const uint8_t* w, const __half* s, double* y, int M, int64_t N, int K, int G, bool fp4) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
  for (int64_t n = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; n < N; n += warps) {
    double sum[kRows] = {};
    for (int j = lane; j < K / 2; j += 32) {
      const int byte = w[n * (K / 2) + j];
      // Both values of a byte lie in one group: G is even.
      const double scale = 0.5 * (double)__half2float(s[n * (K / G) + 2 * j / G]);
      const double lo = scale * twice(byte & 15, fp4), hi = scale * twice(byte >> 4, fp4);
#pragma unroll
      for (int m = 0; m < kRows; ++m)
        if (m < M) {
          const float2 v = __half22float2(*(const __half2*)(x + (int64_t)m * K + 2 * j));
          sum[m] += (double)v.x * lo + (double)v.y * hi;
        }
    }
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      for (int o = 16; o > 0; o /= 2) sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], o);
      if (lane == 0 && m < M) y[m * N + n] = sum[m];
    }
  }
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t M = in.shape.v[0], N = in.shape.v[1];
  if (M > kRows) trouble("int4_gemv: %lld rows", (long long)M);
  const int64_t blocks = (N + 7) / 8;
  reference_kernel<<<(int)(blocks < 65536 ? blocks : 65536), 256, 0, s>>>(
      (const __half*)in.ptr[X], (const uint8_t*)in.ptr[W], (const __half*)in.ptr[S], (double*)ref, (int)M, N,
      (int)in.shape.v[2], (int)in.shape.v[3], in.dtype == FP4);
  check_launch("int4_gemv reference");
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  return judge_tolerance(in.ptr[Y], E_F16, (const double*)ref, in.buffer[Y].count, in.shape.v[1],
                         tolerance(E_F16, 6, 1.5), "y", scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher =
      cudaError_t(const void*, const void*, const void*, void*, int, int, int, int, void*, size_t, cudaStream_t);
  const int64_t* v = in.shape.v;
  return ((Launcher*)fn)(in.ptr[X], in.ptr[W], in.ptr[S], in.ptr[Y], (int)v[0], (int)v[1], (int)v[2], (int)v[3],
                         workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int, int);
  const int64_t* v = in.shape.v;
  return fn ? ((Size*)fn)((int)v[0], (int)v[1], (int)v[2], (int)v[3]) : 0;
}

/// Another row, or one less; and a step further along both other axes.
int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t M = shape.v[0], N = shape.v[1], K = shape.v[2], G = shape.v[3];
  out[0] = Shape{{M < kRows ? M + 1 : M - 1, N, K, G}};
  out[1] = Shape{{M, N + 8, K + G, G}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 264, 64, 64}};
  out[1] = Shape{{5, 136, 1056, 32}};
  out[2] = Shape{{16, 64, 640, 128}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> x = widen(host, X), w = widen(host, W), s = widen(host, S);
  const int64_t* v = host.shape.v;
  std::vector<double> y((size_t)(v[0] * v[1]));
  cref_int4_gemv(x.data(), w.data(), s.data(), y.data(), v[0], v[1], v[2], v[3], host.dtype == FP4);
  return certify_error((const double*)ref, y.data(), (int64_t)y.size());
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  round_reference(in.ptr[Y], E_F16, (const double*)ref, in.buffer[Y].count, s);
}

}  // namespace

extern const OpModule ops_int4_gemv[] = {
    {"int4_gemv", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, nullptr,
     nullptr, 1u << INT4 | 1u << FP4, small, certify, answer},
    {}};

}  // namespace gpurun

// gemm_fp16, int8_gemm and fp8_gemm: axes M N K; a[M,K], b[N,K], for the latter two scales sa
// and sb -> c[M,N] in fp16. An error row is a row of c.
#include <cmath>

#include "gpurun/common.cuh"
#include "gpurun/cref_gemm.h"
#include "gpurun/product.cuh"

namespace gpurun {
namespace {

enum { A, B, SA, SB };
/// c comes right after the scales, where there are any.
int output(const Instance& in) { return in.n - 1; }
bool scaled(Dtype d) { return d != FP16; }
Elem operand(Dtype d) { return d == INT8 ? E_I8 : d == FP8 ? E_E4M3 : E_F16; }

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t M = shape.v[0], N = shape.v[1], K = shape.v[2];
  int n = 0;
  out[n++] = {"a", Role::input, operand(dtype), M * K};
  out[n++] = {"b", Role::input, operand(dtype), N * K};
  if (scaled(dtype)) {
    out[n++] = {"sa", Role::input, E_F32, dtype == INT8 ? M : 1};
    out[n++] = {"sb", Role::input, E_F32, dtype == INT8 ? N : 1};
  }
  out[n++] = {"c", Role::output, E_F16, M * N};
  return n;
}

/// fp16's stress needs a few terms in each half of K.
unsigned families(const Shape& shape, Dtype dtype) {
  return family_bit(F1) | family_bit(F2) | (dtype != FP16 || shape.v[2] >= 256 ? family_bit(F3) : 0);
}

struct OneHot {
  int64_t K;
  float value;
  __device__ float operator()(int64_t i) const { return i % K == one_hot(i / K, K) ? value : 0.f; }
};

/// F3 of gemm_fp16's b: beta for the first half of K, -7/8 beta for the second, an eighth of beta as spread. The sums
/// pass 131072 half-way and end near 16384.
struct Hump {
  uint64_t seed;
  int64_t K;
  float beta;
  __device__ float operator()(int64_t i) const {
    const float spread = gen_mul(beta * 0.125f, gen_normal(gen_hash(seed, B, (uint64_t)i)));
    return gen_add(i % K < K / 2 ? beta : beta * -0.875f, spread);
  }
};

struct Bytes {
  uint64_t seed;
  int tensor;
  __device__ float operator()(int64_t i) const {
    return (float)((int)gen_below(gen_hash(seed, tensor, (uint64_t)i), 255) - 127);
  }
};

struct Constant {
  float value;
  __device__ float operator()(int64_t) const { return value; }
};

struct Signs {
  uint64_t seed;
  int tensor;
  float value;
  __device__ float operator()(int64_t i) const { return gen_hash(seed, tensor, (uint64_t)i) >> 63 ? -value : value; }
};

/// U[0.5, 1.5) * power.
struct Scales {
  uint64_t seed;
  int tensor;
  float power;
  __device__ float operator()(int64_t i) const {
    return gen_mul(gen_uniform(gen_hash(seed, tensor, (uint64_t)i), 0.5f, 1.5f), power);
  }
};

template <class FA, class FB>
void fill_operands(const Instance& in, FA a, FB b, cudaStream_t s) {
  fill_with(in.ptr[A], in.buffer[A].elem, in.buffer[A].count, a, s);
  fill_with(in.ptr[B], in.buffer[B].elem, in.buffer[B].count, b, s);
}

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const int64_t K = in.shape.v[2];
  switch (in.dtype) {
    case INT8: {
      if (f == F1) fill_operands(in, Bytes{seed, A}, Bytes{seed, B}, s);
      else if (f == F2) fill_operands(in, OneHot{K, 127.f}, Bytes{seed, B}, s);
      else fill_operands(in, Constant{127.f}, Constant{127.f}, s);
      const float power = power_scale(K, 4) * 0x1p-6f;
      fill_with(in.ptr[SA], E_F32, in.buffer[SA].count, Scales{seed, SA, power}, s);
      fill_with(in.ptr[SB], E_F32, in.buffer[SB].count, Scales{seed, SB, power}, s);
      break;
    }
    case FP8: {
      if (f == F1) fill_operands(in, Normal{seed, A, 64.f, 0.f}, Normal{seed, B, 64.f, 0.f}, s);
      else if (f == F2) fill_operands(in, OneHot{K, 1.f}, Normal{seed, B, 64.f, 0.f}, s);
      else fill_operands(in, Signs{seed, A, 448.f}, Signs{seed, B, 448.f}, s);
      fill_with(in.ptr[SA], E_F32, 1, Constant{1.25f * 0x1p-6f}, s);
      fill_with(in.ptr[SB], E_F32, 1, Constant{0.8f * 0x1p-6f * power_scale(K, 2)}, s);
      break;
    }
    default: {
      const Normal b = {seed, B, power_scale(K, 2), 0.f};
      if (f == F1) fill_operands(in, Normal{seed, A, 1.f, 0.f}, b, s);
      else if (f == F2) fill_operands(in, OneHot{K, 1.f}, b, s);
      else fill_operands(in, Normal{seed, A, 0.5f, 2.f}, Hump{seed, K, 131072.f / (float)K}, s);
    }
  }
}

size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(double) * shape.v[0] * shape.v[1]; }

/// c[m,n] *= sa[m] * sb[n], or by one pair of scales for all.
__global__ void __launch_bounds__(256)
scale_kernel(double* c, const float* sa, const float* sb, bool each, int64_t M, int64_t N) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < M * N; i += (int64_t)gridDim.x * blockDim.x)
    c[i] *= (double)sa[each ? i / N : 0] * (double)sb[each ? i % N : 0];
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t M = in.shape.v[0], N = in.shape.v[1], K = in.shape.v[2];
  product(in.ptr[A], in.ptr[B], in.buffer[A].elem, (double*)ref, M, N, K, s);
  if (!scaled(in.dtype)) return;
  scale_kernel<<<grid_for(M * N), 256, 0, s>>>((double*)ref, (const float*)in.ptr[SA], (const float*)in.ptr[SB],
                                               in.dtype == INT8, M, N);
  check_launch("scale");
}

Tolerance bound(const Instance& in, Family f) {
  switch (in.dtype) {
    case INT8: return tolerance(E_F16, 0, 0.5);
    case FP8: {
      // As src/ops/gemm.c, which says why.
      const double u = round_off(E_F16), root = std::sqrt((double)in.shape.v[2]);
      return {u, 0x3p-12 * root / u, 1 + 0x1p-14 * root / u, 2, false};
    }
    default: {
      Tolerance t = tolerance(E_F16, 0.5, 0.75);
      if (f != F3) return t;
      // The terms that cancel are eight times the result.
      t.element_rel = 4;
      t.element_only = true;
      return t;
    }
  }
}

Verdict judge(const Instance& in, const void* ref, Family f, uint64_t, void* scratch, cudaStream_t s) {
  const int c = output(in);
  return judge_tolerance(in.ptr[c], E_F16, (const double*)ref, in.buffer[c].count, in.shape.v[1], bound(in, f), "c",
                         scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  const int M = (int)in.shape.v[0], N = (int)in.shape.v[1], K = (int)in.shape.v[2];
  if (!scaled(in.dtype)) {
    using Launcher = cudaError_t(const void*, const void*, void*, int, int, int, void*, size_t, cudaStream_t);
    return ((Launcher*)fn)(in.ptr[A], in.ptr[B], in.ptr[output(in)], M, N, K, workspace, workspace_bytes, s);
  }
  using Launcher = cudaError_t(const void*, const void*, const float*, const float*, void*, int, int, int, void*, size_t,
                               cudaStream_t);
  return ((Launcher*)fn)(in.ptr[A], in.ptr[B], (const float*)in.ptr[SA], (const float*)in.ptr[SB], in.ptr[output(in)], M,
                         N, K, workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int);
  return fn ? ((Size*)fn)((int)in.shape.v[0], (int)in.shape.v[1], (int)in.shape.v[2]) : 0;
}

/// Another row; and a step further along both other axes, down where K has an end.
int neighbours(const Shape& shape, Dtype dtype, Shape out[2]) {
  const int64_t M = shape.v[0], N = shape.v[1], K = shape.v[2];
  const int64_t step = dtype == FP16 ? 8 : 16, last = dtype == FP16 ? 32768 : dtype == INT8 ? 131072 : INT64_MAX;
  out[0] = Shape{{M + 1, N, K}};
  out[1] = Shape{{M, N + 8, K < last ? K + step : K - step}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{3, 264, 48}};
  out[1] = Shape{{77, 136, 400}};
  out[2] = Shape{{130, 64, 1040}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const int64_t M = host.shape.v[0], N = host.shape.v[1], K = host.shape.v[2];
  const std::vector<double> a = widen(host, A), b = widen(host, B);
  std::vector<double> c((size_t)(M * N));
  cref_gemm(a.data(), b.data(), c.data(), M, N, K);
  if (scaled(host.dtype)) {
    const std::vector<double> sa = widen(host, SA), sb = widen(host, SB);
    if (host.dtype == INT8) cref_scale_each(c.data(), sa.data(), sb.data(), M, N);
    else cref_scale_all(c.data(), sa[0], sb[0], M, N);
  }
  return certify_error((const double*)ref, c.data(), M * N);
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  const int c = output(in);
  round_reference(in.ptr[c], E_F16, (const double*)ref, in.buffer[c].count, s);
}

constexpr OpModule module(const char* name, Dtype dtype) {
  return {name, layout, families, fill, reference_bytes, reference, judge, call, workspace,
          neighbours, nullptr, nullptr, 1u << dtype, small, certify, answer};
}

}  // namespace

extern const OpModule ops_gemm[] = {
    module("gemm_fp16", FP16), module("int8_gemm", INT8), module("fp8_gemm", FP8), {}};

}  // namespace gpurun

// rmsnorm and triton_rmsnorm: axes T D; x[T,D], w[D] -> y[T,D].
#include "gpurun/common.cuh"
#include "gpurun/cref_rmsnorm.h"

namespace gpurun {
namespace {

constexpr float kEps = 1e-6f;
enum { X, W, Y };

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t T = shape.v[0], D = shape.v[1];
  const Elem e = dtype_elem(dtype);
  out[X] = {"x", Role::input, e, T * D};
  out[W] = {"w", Role::input, e, D};
  out[Y] = {"y", Role::output, e, T * D};
  return 3;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// F2 has four kinds of rows: fewer rows than that take turns over four trials.
int trials(const Shape& shape, Dtype, Family f) { return f == F2 && shape.v[0] < 4 ? 4 : 1; }

/// Rows by (t + trial) mod 4: mean square about eps, zeros, one non-zero at the end, ordinary.
struct Edges {
  uint64_t seed;
  int64_t D;
  __device__ float operator()(int64_t i) const {
    const float n = gen_normal(gen_hash(seed, X, (uint64_t)i));
    switch ((i / D + trial_of(seed)) % 4) {
      case 0: return n * 0x1p-10f;
      case 1: return 0.f;
      case 2: return i % D == D - 1 ? 1.f : 0.f;
      default: return n;
    }
  }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const Buffer &x = in.buffer[X], &w = in.buffer[W];
  if (f == F2) fill_with(in.ptr[X], x.elem, x.count, Edges{seed, in.shape.v[1]}, s);
  else fill_with(in.ptr[X], x.elem, x.count, Normal{seed, X, f == F3 ? 1024.f : 1.f, 0.f}, s);
  fill_with(in.ptr[W], w.elem, w.count, Normal{seed, W, 0.25f, 1.f}, s);
}

size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(double) * shape.v[0] * shape.v[1]; }

/// A block per row.
__global__ void __launch_bounds__(256)
    reference_kernel(const void* x, const void* w, Elem e, double* y, int64_t T, int64_t D) {
  __shared__ double part[256];
  for (int64_t t = blockIdx.x; t < T; t += gridDim.x) {
    double sum = 0;
    for (int64_t d = threadIdx.x; d < D; d += 256) {
      const double v = load_elem(x, e, t * D + d);
      sum += v * v;
    }
    __syncthreads();  // the row before is done with part
    part[threadIdx.x] = sum;
    for (int o = 128; o > 0; o /= 2) {
      __syncthreads();
      if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
    }
    __syncthreads();
    const double root = sqrt(part[0] / (double)D + (double)kEps);
    for (int64_t d = threadIdx.x; d < D; d += 256)
      y[t * D + d] = load_elem(x, e, t * D + d) / root * load_elem(w, e, d);
  }
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t T = in.shape.v[0];
  reference_kernel<<<(int)(T < 65536 ? T : 65536), 256, 0, s>>>(in.ptr[X], in.ptr[W], in.buffer[X].elem, (double*)ref,
                                                                T, in.shape.v[1]);
  check_launch("rmsnorm reference");
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  const Buffer& y = in.buffer[Y];
  return judge_tolerance(in.ptr[Y], y.elem, (const double*)ref, y.count, in.shape.v[1], tolerance(y.elem, 0.1, 0.9),
                         "y", scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher = cudaError_t(const void*, const void*, void*, int, int, float, void*, size_t, cudaStream_t);
  return ((Launcher*)fn)(in.ptr[X], in.ptr[W], in.ptr[Y], (int)in.shape.v[0], (int)in.shape.v[1], kEps, workspace,
                         workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int);
  return fn ? ((Size*)fn)((int)in.shape.v[0], (int)in.shape.v[1]) : 0;
}

int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t T = shape.v[0], D = shape.v[1];
  out[0] = Shape{{T + 1, D}};
  out[1] = Shape{{T, D < 65536 ? D + 8 : D - 8}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 64}};
  out[1] = Shape{{5, 1000}};
  out[2] = Shape{{33, 136}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> x = widen(host, X), w = widen(host, W);
  std::vector<double> y(x.size());
  cref_rmsnorm(x.data(), w.data(), y.data(), host.shape.v[0], host.shape.v[1], kEps);
  return certify_error((const double*)ref, y.data(), (int64_t)y.size());
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  round_reference(in.ptr[Y], in.buffer[Y].elem, (const double*)ref, in.buffer[Y].count, s);
}

constexpr OpModule module(const char* name) {
  return {name,      layout,     families, fill,    reference_bytes,         reference, judge,   call,
          workspace, neighbours, trials,   nullptr, 1u << FP16 | 1u << BF16, small,     certify, answer};
}

}  // namespace

extern const OpModule ops_rmsnorm[] = {module("rmsnorm"), module("triton_rmsnorm"), {}};

}  // namespace gpurun

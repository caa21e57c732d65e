// swiglu_act: axes T I; x[T,2I] (gates, then ups) -> y[T,I].
#include "gpurun/common.cuh"
#include "gpurun/cref_swiglu.h"

namespace gpurun {
namespace {

enum { X, Y };

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t T = shape.v[0], I = shape.v[1];
  const Elem e = dtype_elem(dtype);
  out[X] = {"x", Role::input, e, T * 2 * I};
  out[Y] = {"y", Role::output, e, T * I};
  return 2;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// F2: gates 0, 1/2, -1/2 by column, ups the column index mod 31.
struct Edges {
  int64_t I;
  __device__ float operator()(int64_t i) const {
    const int64_t column = i % (2 * I);
    if (column >= I) return (float)((column - I) % 31);
    return column % 3 == 0 ? 0.f : column % 3 == 1 ? 0.5f : -0.5f;
  }
};

/// F3: gates at which exp(gate) or exp(-gate) overflows.
struct Stress {
  uint64_t seed;
  int64_t I;
  __device__ float operator()(int64_t i) const {
    const int64_t column = i % (2 * I);
    if (column >= I) return gen_normal(gen_hash(seed, X, (uint64_t)i));
    const int kind = (int)(column % 4);
    return kind == 0 ? -100.f : kind == 1 ? -20.f : kind == 2 ? 20.f : 100.f;
  }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const Buffer& x = in.buffer[X];
  const int64_t I = in.shape.v[1];
  if (f == F1) fill_with(in.ptr[X], x.elem, x.count, Normal{seed, X, 2.f, 0.f}, s);
  else if (f == F2) fill_with(in.ptr[X], x.elem, x.count, Edges{I}, s);
  else fill_with(in.ptr[X], x.elem, x.count, Stress{seed, I}, s);
}

size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(double) * shape.v[0] * shape.v[1]; }

/// A thread per element.
__global__ void __launch_bounds__(256) reference_kernel(const void* x, Elem e, double* y, int64_t T, int64_t I) {
  for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < T * I; k += (int64_t)gridDim.x * blockDim.x) {
    const int64_t at = k / I * 2 * I + k % I;
    const double gate = load_elem(x, e, at), up = load_elem(x, e, at + I);
    y[k] = gate / (1 + exp(-gate)) * up;
  }
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t T = in.shape.v[0], I = in.shape.v[1];
  reference_kernel<<<grid_for(T * I), 256, 0, s>>>(in.ptr[X], in.buffer[X].elem, (double*)ref, T, I);
  check_launch("swiglu reference");
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  const Buffer& y = in.buffer[Y];
  return judge_tolerance(in.ptr[Y], y.elem, (const double*)ref, y.count, in.shape.v[1], tolerance(y.elem, 0.1, 0.75),
                         "y", scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher = cudaError_t(const void*, void*, int, int, void*, size_t, cudaStream_t);
  return ((Launcher*)fn)(in.ptr[X], in.ptr[Y], (int)in.shape.v[0], (int)in.shape.v[1], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int);
  return fn ? ((Size*)fn)((int)in.shape.v[0], (int)in.shape.v[1]) : 0;
}

int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t T = shape.v[0], I = shape.v[1];
  out[0] = Shape{{T + 1, I}};
  out[1] = Shape{{T, I + 8}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 8}};
  out[1] = Shape{{7, 1000}};
  out[2] = Shape{{33, 136}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> x = widen(host, X);
  std::vector<double> y((size_t)(host.shape.v[0] * host.shape.v[1]));
  cref_swiglu(x.data(), y.data(), host.shape.v[0], host.shape.v[1]);
  return certify_error((const double*)ref, y.data(), (int64_t)y.size());
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  round_reference(in.ptr[Y], in.buffer[Y].elem, (const double*)ref, in.buffer[Y].count, s);
}

}  // namespace

extern const OpModule ops_swiglu[] = {
    {"swiglu_act", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, nullptr,
     nullptr, 1u << FP16 | 1u << BF16, small, certify, answer},
    {}};

}  // namespace gpurun

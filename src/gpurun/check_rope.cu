// rope: axes T H D; x[T,H,D], pos[T], table[8192,D] -> y[T,H,D].
#include "gpurun/common.cuh"
#include "gpurun/cref_rope.h"

namespace gpurun {
namespace {

enum { X, POS, TABLE, Y };

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t T = shape.v[0], H = shape.v[1], D = shape.v[2];
  const Elem e = dtype_elem(dtype);
  out[X] = {"x", Role::input, e, T * H * D};
  out[POS] = {"pos", Role::input, E_I32, T};
  out[TABLE] = {"table", Role::input, E_F32, kRopePositions * D};
  out[Y] = {"y", Role::output, e, T * H * D};
  return 4;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// A single one per head, at d = (5t + 3h) mod D.
struct OneHot {
  int64_t H, D;
  __device__ float operator()(int64_t i) const {
    const int64_t head = i / D, t = head / H, h = head % H;
    return i % D == (5 * t + 3 * h) % D ? 1.f : 0.f;
  }
};

struct RandomPositions {
  uint64_t seed;
  __device__ float operator()(int64_t t) const {
    return (float)(1 + gen_below(gen_hash(seed, POS, (uint64_t)t), kRopePositions - 1));
  }
};

struct FallingPositions {
  __device__ float operator()(int64_t t) const { return (float)(kRopePositions - 1 - t % kRopePositions); }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const Buffer& x = in.buffer[X];
  const int64_t T = in.shape.v[0], H = in.shape.v[1], D = in.shape.v[2];
  if (f == F2) fill_with(in.ptr[X], x.elem, x.count, OneHot{H, D}, s);
  else fill_with(in.ptr[X], x.elem, x.count, Normal{seed, X, f == F3 ? 256.f : 1.f, 0.f}, s);
  if (f == F3) fill_with(in.ptr[POS], E_I32, T, FallingPositions{}, s);
  else fill_with(in.ptr[POS], E_I32, T, RandomPositions{seed}, s);
  fill_rope_table((float*)in.ptr[TABLE], D, s);
}

size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(double) * shape.v[0] * shape.v[1] * shape.v[2]; }

/// A thread per pair.
__global__ void __launch_bounds__(256) reference_kernel(const void* x, const int* pos, const float* table, Elem e,
                                                        double* y, int64_t T, int64_t H, int64_t D) {
  const int64_t half = D / 2, pairs = T * H * half;
  for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < pairs; k += (int64_t)gridDim.x * blockDim.x) {
    const int64_t head = k / half, i = k % half, at = head * D + i;
    const float* row = table + (int64_t)pos[head / H] * D;
    const double c = row[i], sine = row[half + i], a = load_elem(x, e, at), b = load_elem(x, e, at + half);
    y[at] = a * c - b * sine;
    y[at + half] = b * c + a * sine;
  }
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t T = in.shape.v[0], H = in.shape.v[1], D = in.shape.v[2];
  reference_kernel<<<grid_for(T * H * D / 2), 256, 0, s>>>(
      in.ptr[X], (const int*)in.ptr[POS], (const float*)in.ptr[TABLE], in.buffer[X].elem, (double*)ref, T, H, D);
  check_launch("rope reference");
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  const Buffer& y = in.buffer[Y];
  return judge_tolerance(in.ptr[Y], y.elem, (const double*)ref, y.count, in.shape.v[2], tolerance(y.elem, 0.25, 0.75),
                         "y", scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher =
      cudaError_t(const void*, const int*, const float*, void*, int, int, int, void*, size_t, cudaStream_t);
  return ((Launcher*)fn)(in.ptr[X], (const int*)in.ptr[POS], (const float*)in.ptr[TABLE], in.ptr[Y], (int)in.shape.v[0],
                         (int)in.shape.v[1], (int)in.shape.v[2], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int);
  return fn ? ((Size*)fn)((int)in.shape.v[0], (int)in.shape.v[1], (int)in.shape.v[2]) : 0;
}

int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t T = shape.v[0], H = shape.v[1], D = shape.v[2];
  out[0] = Shape{{T + 1, H, D}};
  out[1] = Shape{{T, H + 1, D}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 1, 16}};
  out[1] = Shape{{13, 5, 96}};
  out[2] = Shape{{7, 33, 64}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> x = widen(host, X), pos = widen(host, POS), table = widen(host, TABLE);
  std::vector<double> y(x.size()), exact(table.size());
  cref_rope(x.data(), pos.data(), table.data(), y.data(), host.shape.v[0], host.shape.v[1], host.shape.v[2]);
  // The table is an input, but made by us: to its last bit but one (libm's angle may round elsewhere).
  cref_rope_table(exact.data(), host.shape.v[2]);
  for (size_t i = 0; i < table.size(); ++i)
    if (!(table[i] - exact[i] <= 0x1p-24 && exact[i] - table[i] <= 0x1p-24)) return 1;
  return certify_error((const double*)ref, y.data(), (int64_t)y.size());
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  round_reference(in.ptr[Y], in.buffer[Y].elem, (const double*)ref, in.buffer[Y].count, s);
}

}  // namespace

extern const OpModule ops_rope[] = {{"rope", layout, families, fill, reference_bytes, reference, judge, call, workspace,
                                     neighbours, nullptr, nullptr, 1u << FP16 | 1u << BF16, small, certify, answer},
                                    {}};

}  // namespace gpurun

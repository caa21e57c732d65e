// fused_qkv_rope: axes T H HKV D E; x[T,E], w[(H+2HKV)D,E], pos[T], table[8192,D] -> q[T,H,D],
// k[T,HKV,D], v[T,HKV,D]. An error row is a head of a token; each of q, k and v has its own norm.
#include "gpurun/common.cuh"
#include "gpurun/cref_fused_qkv_rope.h"
#include "gpurun/product.cuh"

namespace gpurun {
namespace {

enum { X, W, POS, TABLE, Q, K, V };

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t T = shape.v[0], H = shape.v[1], HKV = shape.v[2], D = shape.v[3], width = shape.v[4];
  const Elem e = dtype_elem(dtype);
  out[X] = {"x", Role::input, e, T * width};
  out[W] = {"w", Role::input, e, (H + 2 * HKV) * D * width};
  out[POS] = {"pos", Role::input, E_I32, T};
  out[TABLE] = {"table", Role::input, E_F32, kRopePositions * D};
  out[Q] = {"q", Role::output, e, T * H * D};
  out[K] = {"k", Role::output, e, T * HKV * D};
  out[V] = {"v", Role::output, e, T * HKV * D};
  return 7;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

struct OneHot {
  int64_t width;
  __device__ float operator()(int64_t i) const { return i % width == one_hot(i / width, width) ? 1.f : 0.f; }
};

/// U{first … 8191}.
struct Positions {
  uint64_t seed;
  int first;
  __device__ float operator()(int64_t t) const {
    return (float)(first + (int)gen_below(gen_hash(seed, POS, (uint64_t)t), (uint32_t)(kRopePositions - first)));
  }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const Buffer &x = in.buffer[X], &w = in.buffer[W];
  const int64_t width = in.shape.v[4];
  if (f == F2) fill_with(in.ptr[X], x.elem, x.count, OneHot{width}, s);
  else fill_with(in.ptr[X], x.elem, x.count, Normal{seed, X, 1.f, 0.f}, s);
  fill_with(in.ptr[W], w.elem, w.count, Normal{seed, W, power_scale(width, 2), 0.f}, s);
  fill_with(in.ptr[POS], E_I32, in.buffer[POS].count, Positions{seed, f == F3 ? 8000 : 1}, s);
  fill_rope_table((float*)in.ptr[TABLE], in.shape.v[3], s);
}

/// q, then k, then v.
size_t reference_bytes(const Shape& shape, Dtype) {
  return sizeof(double) * shape.v[0] * (shape.v[1] + 2 * shape.v[2]) * shape.v[3];
}

/// Where q, k or v begins in the reference.
const double* part(const Instance& in, const void* ref, int tensor) {
  const double* p = (const double*)ref;
  for (int i = Q; i < tensor; ++i) p += in.buffer[i].count;
  return p;
}
double* part(const Instance& in, void* ref, int tensor) {
  return const_cast<double*>(part(in, (const void*)ref, tensor));
}

/// A thread per pair of y[T,heads,D], in place.
__global__ void __launch_bounds__(256)
rotate_kernel(double* y, const int* pos, const float* table, int64_t T, int64_t heads, int64_t D) {
  const int64_t half = D / 2, pairs = T * heads * half;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < pairs; i += (int64_t)gridDim.x * blockDim.x) {
    const int64_t head = i / half, d = i % half, at = head * D + d;
    const float* row = table + (int64_t)pos[head / heads] * D;
    const double c = row[d], sine = row[half + d], a = y[at], b = y[at + half];
    y[at] = a * c - b * sine;
    y[at + half] = b * c + a * sine;
  }
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t T = in.shape.v[0], D = in.shape.v[3], width = in.shape.v[4];
  const Elem e = in.buffer[W].elem;
  int64_t column = 0;
  for (int i = Q; i <= V; ++i) {
    const int64_t heads = in.shape.v[i == Q ? 1 : 2];
    double* y = part(in, ref, i);
    product(in.ptr[X], (const char*)in.ptr[W] + column * width * elem_bytes(e), e, y, T, heads * D, width, s);
    column += heads * D;
    if (i == V) continue;
    rotate_kernel<<<grid_for(T * heads * D / 2), 256, 0, s>>>(y, (const int*)in.ptr[POS], (const float*)in.ptr[TABLE], T,
                                                             heads, D);
    check_launch("rotate");
  }
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  Verdict worst = pass();
  for (int i = Q; i <= V; ++i) {
    const Buffer& y = in.buffer[i];
    worst = both(worst, judge_tolerance(in.ptr[i], y.elem, part(in, ref, i), y.count, in.shape.v[3],
                                        tolerance(y.elem, 1, 0.9), y.name, scratch, s));
  }
  return worst;
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher = cudaError_t(const void*, const void*, const int*, const float*, void*, void*, void*, int, int, int, int,
                               int, void*, size_t, cudaStream_t);
  const int64_t* v = in.shape.v;
  return ((Launcher*)fn)(in.ptr[X], in.ptr[W], (const int*)in.ptr[POS], (const float*)in.ptr[TABLE], in.ptr[Q], in.ptr[K],
                         in.ptr[V], (int)v[0], (int)v[1], (int)v[2], (int)v[3], (int)v[4], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int, int, int);
  const int64_t* v = in.shape.v;
  return fn ? ((Size*)fn)((int)v[0], (int)v[1], (int)v[2], (int)v[3], (int)v[4]) : 0;
}

/// Another token; and a longer hidden state with another query head per KV head.
int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t T = shape.v[0], H = shape.v[1], HKV = shape.v[2], D = shape.v[3], width = shape.v[4];
  out[0] = Shape{{T + 1, H, HKV, D, width}};
  out[1] = Shape{{T, H + HKV, HKV, D, width + 8}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 4, 2, 64, 72}};
  out[1] = Shape{{13, 6, 3, 96, 200}};
  out[2] = Shape{{130, 3, 1, 16, 264}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> x = widen(host, X), w = widen(host, W), pos = widen(host, POS), table = widen(host, TABLE);
  const int64_t* v = host.shape.v;
  const qkv_axes axes = {v[0], v[1], v[2], v[3], v[4]};
  std::vector<double> out[3];
  for (int i = Q; i <= V; ++i) out[i - Q].resize((size_t)host.buffer[i].count);
  cref_fused_qkv_rope(x.data(), w.data(), pos.data(), table.data(), out[0].data(), out[1].data(), out[2].data(), &axes);
  double worst = 0;
  for (int i = Q; i <= V; ++i) {
    const double e = certify_error(part(host, ref, i), out[i - Q].data(), host.buffer[i].count);
    if (e > worst) worst = e;
  }
  return worst;
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  for (int i = Q; i <= V; ++i) round_reference(in.ptr[i], in.buffer[i].elem, part(in, ref, i), in.buffer[i].count, s);
}

}  // namespace

extern const OpModule ops_fused_qkv_rope[] = {
    {"fused_qkv_rope", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, nullptr,
     nullptr, 1u << FP16 | 1u << BF16, small, certify, answer},
    {}};

}  // namespace gpurun

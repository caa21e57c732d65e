// flash_decode, triton_flash_decode (axes B H HKV S D) and swa_decode (axes B H HKV S W D):
// q[B,H,D], k[B,HKV,S,D], v[B,HKV,S,D] -> o[B,H,D]. An error row is a head.
#include <cmath>

#include "gpurun/common.cuh"
#include "gpurun/cref_attention.h"

namespace gpurun {
namespace {

enum { Q, K, V, O };

// dtype fp8's scales, powers of two and unlike. What is stored times its scale is what a family asks for; of F3's keys,
// n(32), a quarter's inverse is the largest that e4m3 holds (448).
constexpr float kScaleK = 0.25f, kScaleV = 0.5f;
float scale_k(Dtype dtype) { return dtype == FP8 ? kScaleK : 1.f; }
float scale_v(Dtype dtype) { return dtype == FP8 ? kScaleV : 1.f; }

/// The axes of all three ops: keys first … S-1 are attended to, L of them.
struct Geometry {
  int64_t B, H, HKV, S, D, first, L;
};

/// Only swa_decode has a sixth axis.
bool windowed(const Shape& shape) { return shape.v[5] != 0; }

Geometry geometry(const Shape& shape) {
  const int64_t* v = shape.v;
  const bool w = windowed(shape);
  const int64_t S = v[3], L = w && v[4] < S ? v[4] : S;
  return {v[0], v[1], v[2], S, w ? v[5] : v[4], S - L, L};
}

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const Geometry g = geometry(shape);
  const Elem e = dtype_elem(dtype), cache = dtype == FP8 ? E_E4M3 : e;
  out[Q] = {"q", Role::input, e, g.B * g.H * g.D};
  out[K] = {"k", Role::input, cache, g.B * g.HKV * g.S * g.D};
  out[V] = {"v", Role::input, cache, g.B * g.HKV * g.S * g.D};
  out[O] = {"o", Role::output, e, g.B * g.H * g.D};
  return 4;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// F2's keys: with q about 1, key j scores about alpha. It rises by 4 over the keys attended to, but the first weighs
/// 0.15 and the last 0.4, and a window's next key outside would outweigh all.
struct Edges {
  uint64_t seed;
  Geometry g;
  float log_keys, log_all;  // of L and S
  float root, stored;       // 1 / sqrt(D), 1 / scale
  __device__ float operator()(int64_t i) const {
    const int64_t j = i / g.D % g.S - g.first;
    float alpha = 0;
    if (j == g.L - 1) alpha = log_keys + 2.5f;
    else if (j == 0) alpha = log_keys + 1.5f;
    else if (j == -1) alpha = log_all + 8.f;
    else if (j > 0) alpha = 4.f * (float)j / (float)g.L;
    const float noise = gen_mul(0.125f, gen_normal(gen_hash(seed, K, (uint64_t)i)));
    return gen_mul(gen_add(gen_mul(alpha, root), noise), stored);
  }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const Geometry g = geometry(in.shape);
  const Buffer &q = in.buffer[Q], &k = in.buffer[K], &v = in.buffer[V];
  const float stored = 1.f / scale_k(in.dtype);
  if (f == F2) {
    fill_with(in.ptr[Q], q.elem, q.count, Normal{seed, Q, 0.125f, 1.f}, s);
    fill_with(in.ptr[K], k.elem, k.count,
              Edges{seed, g, std::log((float)g.L), std::log((float)g.S), 1.f / std::sqrt((float)g.D), stored}, s);
  } else {
    fill_with(in.ptr[Q], q.elem, q.count, Normal{seed, Q, 1.f, 0.f}, s);
    fill_with(in.ptr[K], k.elem, k.count, Normal{seed, K, (f == F3 ? 32.f : 1.f) * stored, 0.f}, s);
  }
  fill_with(in.ptr[V], v.elem, v.count, Normal{seed, V, 1.f / scale_v(in.dtype), 0.f}, s);
}

/// The result, then the scores [B,H,L] on the way to it.
size_t reference_bytes(const Shape& shape, Dtype) {
  const Geometry g = geometry(shape);
  return sizeof(double) * g.B * g.H * (g.D + g.L);
}

/// A warp per score.
__global__ void __launch_bounds__(256)
score_kernel(const void* q, const void* k, Elem qe, Elem ke, double* score, Geometry g, double scale) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = (int64_t)gridDim.x * 8, scores = g.B * g.H * g.L;
  for (int64_t at = blockIdx.x * 8ll + threadIdx.x / 32; at < scores; at += warps) {
    const int64_t head = at / g.L, j = g.first + at % g.L;
    const int64_t kv_head = head / g.H * g.HKV + head % g.H / (g.H / g.HKV);
    const int64_t key = (kv_head * g.S + j) * g.D;
    double sum = 0;
    for (int64_t d = lane; d < g.D; d += 32) sum += load_elem(q, qe, head * g.D + d) * load_elem(k, ke, key + d);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (lane == 0) score[at] = sum * scale;
  }
}

constexpr int kThreads = 512;

/// Over the block, by tree.
template <class F>
__device__ double reduced(double x, double* part, F f) {
  __syncthreads();  // the reduction before is done with part
  part[threadIdx.x] = x;
  for (int o = kThreads / 2; o > 0; o /= 2) {
    __syncthreads();
    if (threadIdx.x < o) part[threadIdx.x] = f(part[threadIdx.x], part[threadIdx.x + o]);
  }
  __syncthreads();
  return part[0];
}

/// A block per head: softmax of its scores in place, then the mean of the values. kThreads / D keys at a time.
__global__ void __launch_bounds__(kThreads)
mean_kernel(const void* v, Elem ve, double* score, double* o, Geometry g, double scale) {
  __shared__ double part[kThreads];
  const int64_t head = blockIdx.x, kv_head = head / g.H * g.HKV + head % g.H / (g.H / g.HKV);
  double* p = score + head * g.L;
  double most = -HUGE_VAL, sum = 0;
  for (int64_t j = threadIdx.x; j < g.L; j += kThreads) most = fmax(most, p[j]);
  most = reduced(most, part, [](double a, double b) { return fmax(a, b); });
  for (int64_t j = threadIdx.x; j < g.L; j += kThreads) sum += p[j] = exp(p[j] - most);
  sum = reduced(sum, part, [](double a, double b) { return a + b; });

  const int D = (int)g.D, groups = kThreads / D, group = threadIdx.x / D, d = threadIdx.x % D;
  const int64_t first = (kv_head * g.S + g.first) * g.D + d;
  double mean = 0;
  if (group < groups) {
#pragma unroll 4
    for (int64_t j = group; j < g.L; j += groups) mean += p[j] * load_elem(v, ve, first + j * g.D);
  }
  __syncthreads();  // everyone has read the sum
  part[threadIdx.x] = mean;
  __syncthreads();
  if (group > 0) return;
  for (int i = 1; i < groups; ++i) mean += part[i * D + d];
  o[head * g.D + d] = mean / sum * scale;
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const Geometry g = geometry(in.shape);
  if (g.D > kThreads || g.H % g.HKV)
    trouble("attention with D %lld, H %lld, HKV %lld", (long long)g.D, (long long)g.H, (long long)g.HKV);
  double *o = (double*)ref, *score = o + g.B * g.H * g.D;
  const int64_t blocks = (g.B * g.H * g.L + 7) / 8;
  score_kernel<<<(int)(blocks < 65536 ? blocks : 65536), 256, 0, s>>>(in.ptr[Q], in.ptr[K], in.buffer[Q].elem,
                                                                      in.buffer[K].elem, score, g,
                                                                      scale_k(in.dtype) / std::sqrt((double)g.D));
  check_launch("attention scores");
  mean_kernel<<<(int)(g.B * g.H), kThreads, 0, s>>>(in.ptr[V], in.buffer[V].elem, score, o, g, scale_v(in.dtype));
  check_launch("attention reference");
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  const Buffer& o = in.buffer[O];
  return judge_tolerance(in.ptr[O], o.elem, (const double*)ref, o.count, geometry(in.shape).D, tolerance(o.elem, 3, 1),
                         "o", scratch, s);
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  const void *q = in.ptr[Q], *k = in.ptr[K], *v = in.ptr[V];
  void* o = in.ptr[O];
  int a[6];
  for (int i = 0; i < 6; ++i) a[i] = (int)in.shape.v[i];
  if (windowed(in.shape)) {
    using Launcher = cudaError_t(const void*, const void*, const void*, void*, int, int, int, int, int, int, void*,
                                 size_t, cudaStream_t);
    return ((Launcher*)fn)(q, k, v, o, a[0], a[1], a[2], a[3], a[4], a[5], workspace, workspace_bytes, s);
  }
  if (in.dtype == FP8) {
    using Launcher = cudaError_t(const void*, const void*, const void*, void*, int, int, int, int, int, float, float,
                                 void*, size_t, cudaStream_t);
    return ((Launcher*)fn)(q, k, v, o, a[0], a[1], a[2], a[3], a[4], kScaleK, kScaleV, workspace, workspace_bytes, s);
  }
  using Launcher = cudaError_t(const void*, const void*, const void*, void*, int, int, int, int, int, void*, size_t,
                               cudaStream_t);
  return ((Launcher*)fn)(q, k, v, o, a[0], a[1], a[2], a[3], a[4], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  int a[6];
  for (int i = 0; i < 6; ++i) a[i] = (int)in.shape.v[i];
  if (!fn) return 0;
  if (windowed(in.shape)) {
    using Size = size_t(int, int, int, int, int, int);
    return ((Size*)fn)(a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  using Size = size_t(int, int, int, int, int);
  return ((Size*)fn)(a[0], a[1], a[2], a[3], a[4]);
}

/// Another key; then another sequence, with one key (or a window one key) shorter where it can be.
int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  out[0] = out[1] = shape;
  ++out[0].v[3];
  ++out[1].v[0];
  int64_t& keys = out[1].v[windowed(shape) ? 4 : 3];
  if (keys > 1) --keys;
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{2, 4, 2, 37, 64}};
  out[1] = Shape{{1, 6, 1, 130, 80}};
  out[2] = Shape{{3, 2, 2, 1, 256}};
}

/// A window inside, one longer than the cache, one that leaves a single key out.
void small_windows(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 4, 2, 100, 33, 64}};
  out[1] = Shape{{2, 3, 1, 50, 64, 96}};
  out[2] = Shape{{1, 2, 2, 130, 129, 128}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const Geometry g = geometry(host.shape);
  const std::vector<double> q = widen(host, Q), k = widen(host, K), v = widen(host, V);
  std::vector<double> o(q.size());
  cref_attention(q.data(), k.data(), v.data(), o.data(), g.B, g.H, g.HKV, g.S, g.first, g.D, scale_k(host.dtype),
                 scale_v(host.dtype));
  return certify_error((const double*)ref, o.data(), (int64_t)o.size());
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  round_reference(in.ptr[O], in.buffer[O].elem, (const double*)ref, in.buffer[O].count, s);
}

constexpr OpModule module(const char* name, unsigned dtypes, void (*shapes)(Dtype, Shape*)) {
  return {name,      layout,     families, fill,    reference_bytes, reference, judge,   call,
          workspace, neighbours, nullptr,  nullptr, dtypes,          shapes,    certify, answer};
}

}  // namespace

extern const OpModule ops_attention[] = {module("flash_decode", 1u << FP16 | 1u << BF16 | 1u << FP8, small),
                                         module("triton_flash_decode", 1u << FP16 | 1u << BF16, small),
                                         module("swa_decode", 1u << FP16 | 1u << BF16, small_windows),
                                         {}};

}  // namespace gpurun

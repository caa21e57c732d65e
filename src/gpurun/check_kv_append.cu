// kv_append: axes T HKV D P; k[T,HKV,D], v[T,HKV,D], slot[T] -> kc, vc[NP,HKV,P,D], written in
// place; dtype fp8 has a cache of e4m3. The test is exact over the whole cache.
#include <cmath>

#include "gpurun/common.cuh"
#include "gpurun/cref.h"
#include "gpurun/cref_kv_append.h"
#include "gpurun/permute.cuh"

namespace gpurun {
namespace {

enum { K, V, SLOT, KC, VC };

// dtype fp8's scales, powers of two and unlike: F1's values stay just below e4m3's largest, 448.
constexpr float kScaleK = 64.f, kScaleV = 128.f;

int64_t pages(const Shape& shape) { return 2 * ((shape.v[0] + shape.v[3] - 1) / shape.v[3]) + 8; }

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t T = shape.v[0], HKV = shape.v[1], D = shape.v[2], P = shape.v[3];
  const Elem e = dtype_elem(dtype), cache = dtype == FP8 ? E_E4M3 : e;
  out[K] = {"k", Role::input, e, T * HKV * D};
  out[V] = {"v", Role::input, e, T * HKV * D};
  out[SLOT] = {"slot", Role::input, E_I32, T};
  out[KC] = {"kc", Role::inout, cache, pages(shape) * HKV * P * D};
  out[VC] = {"vc", Role::inout, cache, pages(shape) * HKV * P * D};
  return 5;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// F2 skips every fourth token. Where there are fewer than four, a second trial skips none.
int trials(const Shape& shape, Dtype, Family f) { return f == F2 && shape.v[0] < 4 ? 2 : 1; }

__global__ void __launch_bounds__(256) slot_kernel(int* slot, int64_t T, int64_t NP, int64_t P, Family f, uint64_t seed) {
  const int64_t n = NP * P, first = gen_below(gen_hash(seed, SLOT, 0), (uint32_t)(n - T + 1));
  for (int64_t t = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; t < T; t += (int64_t)gridDim.x * blockDim.x) {
    int64_t at;
    if (f == F2) {
      // The last token that is not skipped takes the last slot of all. From there downwards page by page: first the
      // ends of all pages, then the places before them.
      const int64_t r = T - 1 - t - ((T - 1 + trial_of(seed)) % 4 == 0);
      at = (NP - 1 - r % NP) * P + P - 1 - r / NP;
      if ((t + trial_of(seed)) % 4 == 0) at = -1;
    } else if (f == F3) {
      at = first + t;
    } else {
      at = permuted(seed, t, n);
    }
    slot[t] = (int)at;
  }
}

/// What the cache holds before: random bits, but no poison.
__global__ void __launch_bounds__(256) random_kernel(void* p, Elem e, int64_t count, uint64_t seed, int tensor) {
  const uint32_t poisoned = poison_bits(e);
  const int width = elem_bytes(e), per = 8 / width;  // elements of a hash
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count / per; i += (int64_t)gridDim.x * blockDim.x) {
    const uint64_t h = gen_hash(seed, tensor, (uint64_t)i);
    for (int j = 0; j < per; ++j) {
      const uint32_t bits = (uint32_t)(h >> j * width * 8) & (width == 2 ? 0xFFFFu : 0xFFu);
      store_bits(p, e, i * per + j, bits == poisoned ? 0 : bits);
    }
  }
}

void fill_cache(const Instance& in, int tensor, void* to, uint64_t seed, cudaStream_t s) {
  const Buffer& c = in.buffer[tensor];  // D is a multiple of 16, so no hash is cut
  random_kernel<<<grid_for(c.count / 4), 256, 0, s>>>(to, c.elem, c.count, seed, tensor);
  check_launch("fill cache");
}

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  // In F2 the values of an fp8 cache pass its range.
  const float sigma = f == F2 && in.dtype == FP8 ? 8.f : 1.f;
  for (int i : {K, V}) fill_with(in.ptr[i], in.buffer[i].elem, in.buffer[i].count, Normal{seed, i, sigma, 0.f}, s);
  const int64_t T = in.shape.v[0];
  slot_kernel<<<grid_for(T), 256, 0, s>>>((int*)in.ptr[SLOT], T, pages(in.shape), in.shape.v[3], f, seed);
  check_launch("slots");
  for (int i : {KC, VC}) fill_cache(in, i, in.ptr[i], seed, s);
}

/// The two caches as they should be.
size_t cache_bytes(const Shape& shape, Dtype dtype) {
  return (size_t)(pages(shape) * shape.v[1] * shape.v[3] * shape.v[2]) * (dtype == FP8 ? 1 : 2);
}
size_t reference_bytes(const Shape& shape, Dtype dtype) { return 2 * cache_bytes(shape, dtype); }

/// A thread per element of k or v.
__global__ void __launch_bounds__(256)
append_kernel(const void* x, Elem e, const int* slot, void* cache, Elem ce, float scale, int64_t T, int64_t HKV, int64_t D,
              int64_t P) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < T * HKV * D; i += (int64_t)gridDim.x * blockDim.x) {
    const int64_t d = i % D, h = i / D % HKV, at = slot[i / D / HKV];
    if (at < 0) continue;
    const int64_t to = ((at / P * HKV + h) * P + at % P) * D + d;
    if (e == ce) store_bits(cache, ce, to, load_bits(x, e, i));
    else store_elem(cache, ce, to, (float)load_elem(x, e, i) * scale);
  }
}

/// From the seed and the inputs alone: the caches themselves may have been written by now.
void reference(const Instance& in, void* ref, Family, uint64_t seed, cudaStream_t s) {
  const int64_t* v = in.shape.v;
  for (int i : {KC, VC}) {
    void* to = (char*)ref + (i == VC ? cache_bytes(in.shape, in.dtype) : 0);
    const int from = i == KC ? K : V;
    fill_cache(in, i, to, seed, s);
    append_kernel<<<grid_for(in.buffer[from].count), 256, 0, s>>>(in.ptr[from], in.buffer[from].elem,
                                                                  (const int*)in.ptr[SLOT], to, in.buffer[i].elem,
                                                                  i == KC ? kScaleK : kScaleV, v[0], v[1], v[2], v[3]);
    check_launch("kv_append reference");
  }
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  Verdict worst = pass();
  for (int i : {KC, VC}) {
    const void* want = (const char*)ref + (i == VC ? cache_bytes(in.shape, in.dtype) : 0);
    const Buffer& c = in.buffer[i];
    worst = both(worst, judge_bits(in.ptr[i], want, c.count, c.elem, c.name, scratch, s, false));
  }
  return worst;
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  const void *k = in.ptr[K], *v = in.ptr[V];
  const int* slot = (const int*)in.ptr[SLOT];
  const int T = (int)in.shape.v[0], HKV = (int)in.shape.v[1], D = (int)in.shape.v[2], P = (int)in.shape.v[3];
  if (in.dtype == FP8) {
    using Launcher = cudaError_t(const void*, const void*, const int*, void*, void*, int, int, int, int, float, float,
                                 void*, size_t, cudaStream_t);
    return ((Launcher*)fn)(k, v, slot, in.ptr[KC], in.ptr[VC], T, HKV, D, P, kScaleK, kScaleV, workspace,
                           workspace_bytes, s);
  }
  using Launcher = cudaError_t(const void*, const void*, const int*, void*, void*, int, int, int, int, void*, size_t,
                               cudaStream_t);
  return ((Launcher*)fn)(k, v, slot, in.ptr[KC], in.ptr[VC], T, HKV, D, P, workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int, int);
  const int64_t* v = in.shape.v;
  return fn ? ((Size*)fn)((int)v[0], (int)v[1], (int)v[2], (int)v[3]) : 0;
}

int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t T = shape.v[0], HKV = shape.v[1], D = shape.v[2], P = shape.v[3];
  out[0] = Shape{{T + 1, HKV, D, P}};
  out[1] = Shape{{T, HKV + 1, D, P}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 3, 16, 8}};
  out[1] = Shape{{37, 4, 80, 16}};
  out[2] = Shape{{70, 1, 48, 1}};
}

/// One cache: what C says belongs there, bit for bit where nothing does. Returns whether it is so.
bool certify_cache(const Instance& host, const char* ref, int cache, const std::vector<int64_t>& source) {
  const Buffer& c = host.buffer[cache];
  const int from = cache == KC ? K : V;
  const std::vector<double> x = widen(host, from);
  const enum cref_type type = (enum cref_type)c.elem;
  for (int64_t i = 0; i < c.count; ++i) {
    const int64_t t = source[(size_t)i];
    if (t < 0 || host.dtype != FP8) {
      const void* want = t < 0 ? host.ptr[cache] : host.ptr[from];
      if (load_bits(ref, c.elem, i) != load_bits(want, c.elem, t < 0 ? i : t)) return false;
    } else {
      const double want = cref_round(x[(size_t)t] * (cache == KC ? kScaleK : kScaleV), type), got = cref_load(ref, type, i);
      if (got != want || std::signbit(got) != std::signbit(want)) return false;
    }
  }
  return true;
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  const std::vector<double> slot = widen(host, SLOT);
  std::vector<int64_t> source((size_t)host.buffer[KC].count);
  const int64_t* v = host.shape.v;
  if (cref_kv_append(slot.data(), source.data(), v[0], v[1], v[2], v[3], pages(host.shape))) return 1;
  return certify_cache(host, (const char*)ref, KC, source) &&
                 certify_cache(host, (const char*)ref + cache_bytes(host.shape, host.dtype), VC, source)
             ? 0
             : 1;
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  const size_t bytes = cache_bytes(in.shape, in.dtype);
  check(cudaMemcpyAsync(in.ptr[KC], ref, bytes, cudaMemcpyDeviceToDevice, s), "answer");
  check(cudaMemcpyAsync(in.ptr[VC], (const char*)ref + bytes, bytes, cudaMemcpyDeviceToDevice, s), "answer");
}

}  // namespace

extern const OpModule ops_kv_append[] = {
    {"kv_append", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, trials, nullptr,
     1u << FP16 | 1u << BF16 | 1u << FP8, small, certify, answer},
    {}};

}  // namespace gpurun

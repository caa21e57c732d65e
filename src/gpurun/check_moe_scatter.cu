// moe_scatter: axes T E K D; x[T,D], ids[T,K] -> y[TK,D], offsets[E+1], pos[T,K]. Exact, but the
// order inside an expert is free: pos is held to what it must be, and y to pos.
#include "gpurun/common.cuh"
#include "gpurun/cref_moe_scatter.h"
#include "gpurun/permute.cuh"

namespace gpurun {
namespace {

enum { X, IDS, Y, OFFSETS, POS };
constexpr int kMaxExperts = 512;

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t T = shape.v[0], E = shape.v[1], K = shape.v[2], D = shape.v[3];
  const Elem e = dtype_elem(dtype);
  out[X] = {"x", Role::input, e, T * D};
  out[IDS] = {"ids", Role::input, E_I32, T * K};
  out[Y] = {"y", Role::output, e, T * K * D};
  out[OFFSETS] = {"offsets", Role::output, E_I32, E + 1};
  out[POS] = {"pos", Role::output, E_I32, T * K};
  return 5;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// A thread per token.
__global__ void __launch_bounds__(256) ids_kernel(int* ids, int64_t T, int E, int K, Family f, uint64_t seed) {
  // F3: where an expert can be spared, this one stays empty.
  const int used = E > K ? E - 1 : E, spared = used < E ? (int)gen_below(gen_hash(seed, IDS, ~0ull), (uint32_t)E) : E;
  for (int64_t t = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; t < T; t += (int64_t)gridDim.x * blockDim.x) {
    int* row = ids + t * K;
    if (f == F1) {
      const uint64_t mine = gen_hash(seed, IDS, (uint64_t)t);
      for (int k = 0; k < K; ++k) row[k] = (int)permuted(mine, k, E);
    } else if (f == F2) {
      for (int k = 0; k < K; ++k) row[k] = E - K + (int)((t + k) % K);
    } else {
      for (int k = 0; k < K; ++k) {
        // Below used / 2^j, j uniform: about 1/e for expert e. An expert that the token has already: the next one.
        const uint64_t h = gen_hash(seed, IDS, (uint64_t)(t * K + k));
        const int below = used >> gen_below(h << 32, (uint32_t)(32 - __clz(used)));
        int e = (int)gen_below(h, (uint32_t)below);
        for (int j = 0; j < k; ++j)
          if (row[j] - (row[j] > spared) == e) e = (e + 1) % used, j = -1;
        row[k] = e + (e >= spared);
      }
    }
  }
}

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const int64_t T = in.shape.v[0], E = in.shape.v[1], K = in.shape.v[2];
  if (E > kMaxExperts || K > E) trouble("moe_scatter: %lld of %lld experts", (long long)K, (long long)E);
  fill_with(in.ptr[X], in.buffer[X].elem, in.buffer[X].count, Normal{seed, X, 1.f, 0.f}, s);
  ids_kernel<<<grid_for(T), 256, 0, s>>>((int*)in.ptr[IDS], T, (int)E, (int)K, f, seed);
  check_launch("expert ids");
}

/// The offsets, as int.
size_t reference_bytes(const Shape& shape, Dtype) { return sizeof(int) * (size_t)(shape.v[1] + 1); }

/// One block: counts, then one thread adds them up.
__global__ void __launch_bounds__(1024) offsets_kernel(const int* ids, int* offsets, int64_t n, int E) {
  __shared__ int count[kMaxExperts];
  for (int e = threadIdx.x; e < E; e += blockDim.x) count[e] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&count[ids[i]], 1);
  __syncthreads();
  if (threadIdx.x) return;
  int sum = 0;
  for (int e = 0; e < E; ++e) {
    offsets[e] = sum;
    sum += count[e];
  }
  offsets[E] = sum;
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  offsets_kernel<<<1, 1024, 0, s>>>((const int*)in.ptr[IDS], (int*)ref, in.buffer[IDS].count, (int)in.shape.v[1]);
  check_launch("moe_scatter reference");
}

/// How many elements are wrong in one way, and the first of them.
struct Wrong {
  unsigned long long count = 0, first = ~0ull;
  /// A thread's own count.
  __device__ void note(int64_t i) {
    ++count;
    if ((unsigned long long)i < first) first = (unsigned long long)i;
  }
  /// Adds it to that of all.
  __device__ void give(Wrong* all) const {
    if (!count) return;
    atomicAdd(&all->count, count);
    atomicMin(&all->first, first);
  }
};
struct Findings {
  Wrong y_nonfinite, y_unwritten, y_mismatch, pos_unwritten, pos_outside, pos_twice;
};

// The scratch memory: findings at its beginning, and behind them a bit for each position of a window.
constexpr size_t kSeenAt = 1024;
constexpr int64_t kWindow = (int64_t)(kScratchBytes - kSeenAt) * 8;

/// Of y alone. x holds neither poison nor anything that is not finite.
__global__ void __launch_bounds__(256) screen_kernel(const void* y, Elem e, int64_t count, Findings* out) {
  const uint32_t poisoned = poison_bits(e), exponent = e == E_BF16 ? 0x7F80u : 0x7C00u;
  const int64_t vectors = count / 8;
  Wrong unwritten, nonfinite;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < vectors; i += (int64_t)gridDim.x * blockDim.x) {
    const uint4 v = ((const uint4*)y)[i];
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
    for (int j = 0; j < 8; ++j) {
      const uint32_t bits = word[j / 2] >> j % 2 * 16 & 0xFFFFu;
      if (bits == poisoned) unwritten.note(i * 8 + j);
      else if ((bits & exponent) == exponent) nonfinite.note(i * 8 + j);
    }
  }
  unwritten.give(&out->y_unwritten);
  nonfinite.give(&out->y_nonfinite);
}

/// pos lies within its expert's range. Positions within the window from `from` on are marked as seen.
__global__ void __launch_bounds__(256)
pos_kernel(const int* pos, const int* ids, const int* offsets, int64_t n, int64_t from, uint32_t* seen, Findings* out) {
  const int poisoned = (int)poison_bits(E_I32);
  Wrong unwritten, outside, twice;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
    const int p = pos[i], e = ids[i];
    if (p < offsets[e] || p >= offsets[e + 1]) {
      if (from == 0) (p == poisoned ? unwritten : outside).note(i);
      continue;
    }
    const int64_t bit = p - from;
    if (bit < 0 || bit >= kWindow) continue;
    if (atomicOr(&seen[bit / 32], 1u << bit % 32) >> bit % 32 & 1) twice.note(i);
  }
  unwritten.give(&out->pos_unwritten);
  outside.give(&out->pos_outside);
  twice.give(&out->pos_twice);
}

/// y[pos[i]] against x[i / K], a warp per row; only for a pos that is a permutation.
__global__ void __launch_bounds__(256)
rows_kernel(const uint4* x, const uint4* y, const int* pos, int64_t n, int64_t K, int64_t vectors, Findings* out) {
  const int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
  Wrong mismatch;
  for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; i < n; i += warps) {
    const uint4 *want = x + i / K * vectors, *got = y + (int64_t)pos[i] * vectors;
    for (int64_t k = threadIdx.x % 32; k < vectors; k += 32) {
      const uint4 a = want[k], b = got[k];
      if (a.x != b.x || a.y != b.y || a.z != b.z || a.w != b.w) mismatch.note(((int64_t)pos[i] * vectors + k) * 8);
    }
  }
  mismatch.give(&out->y_mismatch);
}

Findings read(const Findings* device, cudaStream_t s) {
  Findings f;
  check(cudaMemcpyAsync(&f, device, sizeof f, cudaMemcpyDeviceToHost, s), "read findings");
  check(cudaStreamSynchronize(s), "compare");
  return f;
}

/// `worst`, or a failure if something was found.
Verdict with(const Verdict& worst, const Wrong& w, int reason, const char* what) {
  if (!w.count) return worst;
  return both(worst, fail(reason, what, w.first, w.count));
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  const int64_t K = in.shape.v[2], D = in.shape.v[3], n = in.buffer[POS].count;
  const int* offsets = (const int*)ref;
  const int* pos = (const int*)in.ptr[POS];
  Verdict worst = judge_bits(in.ptr[OFFSETS], ref, in.buffer[OFFSETS].count, E_I32, "offsets", scratch, s);

  const Findings none;
  Findings* found = (Findings*)scratch;
  static_assert(sizeof(Findings) <= kSeenAt, "findings fit before the bits");
  check(cudaMemcpyAsync(found, &none, sizeof none, cudaMemcpyHostToDevice, s), "clear findings");
  screen_kernel<<<grid_for(in.buffer[Y].count / 8), 256, 0, s>>>(in.ptr[Y], in.buffer[Y].elem, in.buffer[Y].count, found);
  check_launch("screen y");
  uint32_t* seen = (uint32_t*)((char*)scratch + kSeenAt);
  for (int64_t from = 0; from < n; from += kWindow) {
    check(cudaMemsetAsync(seen, 0, kScratchBytes - kSeenAt, s), "clear bits");
    pos_kernel<<<grid_for(n), 256, 0, s>>>(pos, (const int*)in.ptr[IDS], offsets, n, from, seen, found);
    check_launch("compare pos");
  }
  Findings f = read(found, s);
  // n positions within the ranges, none twice: all of them.
  if (!f.pos_unwritten.count && !f.pos_outside.count && !f.pos_twice.count) {
    rows_kernel<<<grid_for(n * 32), 256, 0, s>>>((const uint4*)in.ptr[X], (const uint4*)in.ptr[Y], pos, n, K, D / 8, found);
    check_launch("compare rows");
    f = read(found, s);
  }
  worst = with(worst, f.y_nonfinite, RUN_NONFINITE, "y[%llu] is not finite, %llu such elements");
  worst = with(worst, f.y_unwritten, RUN_UNWRITTEN, "y[%llu] is not written, %llu such elements");
  worst = with(worst, f.pos_unwritten, RUN_UNWRITTEN, "pos[%llu] is not written, %llu such elements");
  worst = with(worst, f.pos_outside, RUN_MISMATCH, "pos[%llu] is not within its expert's range, %llu such elements");
  worst = with(worst, f.pos_twice, RUN_MISMATCH, "pos[%llu] is another's position too, %llu such elements");
  worst = with(worst, f.y_mismatch, RUN_MISMATCH, "y[%llu] is not of its token's row, %llu such vectors");
  return worst;
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher = cudaError_t(const void*, const int*, void*, int*, int*, int, int, int, int, void*, size_t, cudaStream_t);
  const int64_t* v = in.shape.v;
  return ((Launcher*)fn)(in.ptr[X], (const int*)in.ptr[IDS], in.ptr[Y], (int*)in.ptr[OFFSETS], (int*)in.ptr[POS],
                         (int)v[0], (int)v[1], (int)v[2], (int)v[3], workspace, workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int, int);
  const int64_t* v = in.shape.v;
  return fn ? ((Size*)fn)((int)v[0], (int)v[1], (int)v[2], (int)v[3]) : 0;
}

/// Another token; and an expert more or, at the end, less.
int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t T = shape.v[0], E = shape.v[1], K = shape.v[2], D = shape.v[3];
  out[0] = Shape{{T + 1, E, K, D}};
  const int64_t other = E < kMaxExperts ? E + 1 : E - 1;
  if (other < K) return 1;
  out[1] = Shape{{T, other, K, D}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{1, 16, 8, 64}};
  out[1] = Shape{{77, 13, 3, 136}};
  out[2] = Shape{{300, 8, 8, 8}};
}

double certify(const Instance& host, const void* ref, Family f, uint64_t) {
  const int64_t T = host.shape.v[0], E = host.shape.v[1], K = host.shape.v[2];
  const std::vector<double> ids = widen(host, IDS);
  std::vector<double> offsets((size_t)E + 1);
  const int used = cref_moe_scatter(ids.data(), offsets.data(), T, E, K);
  if (used < 0 || (f == F2 && used != K) || (f == F3 && E > K && used >= E)) return 1;
  for (int64_t e = 0; e <= E; ++e)
    if (((const int*)ref)[e] != offsets[(size_t)e]) return 1;
  return 0;
}

/// A thread per assignment, which counts those of its expert before it: for small shapes.
__global__ void __launch_bounds__(256) place_kernel(const int* ids, const int* offsets, int* pos, int64_t n) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
    int p = offsets[ids[i]];
    for (int64_t j = 0; j < i; ++j) p += ids[j] == ids[i];
    pos[i] = p;
  }
}

__global__ void __launch_bounds__(256)
copy_kernel(const void* x, void* y, Elem e, const int* pos, int64_t n, int64_t K, int64_t D) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n * D; i += (int64_t)gridDim.x * blockDim.x)
    store_bits(y, e, pos[i / D] * D + i % D, load_bits(x, e, i / D / K * D + i % D));
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t n = in.buffer[POS].count, K = in.shape.v[2], D = in.shape.v[3];
  check(cudaMemcpyAsync(in.ptr[OFFSETS], ref, reference_bytes(in.shape, in.dtype), cudaMemcpyDeviceToDevice, s), "answer");
  place_kernel<<<grid_for(n), 256, 0, s>>>((const int*)in.ptr[IDS], (const int*)ref, (int*)in.ptr[POS], n);
  copy_kernel<<<grid_for(n * D), 256, 0, s>>>(in.ptr[X], in.ptr[Y], in.buffer[X].elem, (const int*)in.ptr[POS], n, K, D);
  check_launch("answer");
}

}  // namespace

extern const OpModule ops_moe_scatter[] = {
    {"moe_scatter", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, nullptr,
     nullptr, 1u << FP16 | 1u << BF16, small, certify, answer},
    {}};

}  // namespace gpurun

#include "gpurun/common.cuh"

#include <cmath>
#include <cstring>

#include "gpurun/cref.h"

namespace gpurun {
namespace {

// --- the rotary table -------------------------------------------------------------------------------------------

__global__ void rope_table_kernel(float* table, int64_t half) {
  const int64_t n = kRopePositions * half;
  for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < n; k += (int64_t)gridDim.x * blockDim.x) {
    const int64_t p = k / half, i = k % half;
    double sine, cosine;
    sincos((double)p * pow(10000.0, -(double)i / (double)half), &sine, &cosine);
    table[p * 2 * half + i] = (float)cosine;
    table[p * 2 * half + half + i] = (float)sine;
  }
}

// --- what a comparison finds ------------------------------------------------------------------------------------

struct Stats {
  double err2, ref2;
  unsigned long long max_abs, max_rel;  // bits of doubles >= 0, which are ordered as integers
  unsigned long long nonfinite, unwritten, mismatch;
  unsigned long long first_nonfinite, first_unwritten, first_mismatch;  // element index, ~0 none
};

struct ThreadStats {
  double err2 = 0, ref2 = 0, max_abs = 0, max_rel = 0;
  unsigned long long nonfinite = 0, unwritten = 0, mismatch = 0;
  unsigned long long first_nonfinite = ~0ull, first_unwritten = ~0ull, first_mismatch = ~0ull;

  __device__ void count(unsigned long long& n, unsigned long long& first, int64_t i) {
    ++n;
    if ((unsigned long long)i < first) first = (unsigned long long)i;
  }
};

__device__ double warp_sum(double x) {
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

/// All threads of the warp take part.
__device__ void add_stats(const ThreadStats& t, Stats* out) {
  const double err2 = warp_sum(t.err2), ref2 = warp_sum(t.ref2);
  double max_abs = t.max_abs, max_rel = t.max_rel;
  for (int o = 16; o > 0; o /= 2) {
    max_abs = fmax(max_abs, __shfl_xor_sync(0xffffffffu, max_abs, o));
    max_rel = fmax(max_rel, __shfl_xor_sync(0xffffffffu, max_rel, o));
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&out->err2, err2);
    atomicAdd(&out->ref2, ref2);
    atomicMax(&out->max_abs, (unsigned long long)__double_as_longlong(max_abs));
    atomicMax(&out->max_rel, (unsigned long long)__double_as_longlong(max_rel));
  }
  if (t.nonfinite) atomicAdd(&out->nonfinite, t.nonfinite), atomicMin(&out->first_nonfinite, t.first_nonfinite);
  if (t.unwritten) atomicAdd(&out->unwritten, t.unwritten), atomicMin(&out->first_unwritten, t.first_unwritten);
  if (t.mismatch) atomicAdd(&out->mismatch, t.mismatch), atomicMin(&out->first_mismatch, t.first_mismatch);
}

constexpr int kBlock = 256;

/// GROUP threads per error row: a warp for short rows, the block for long ones. One look at r for the row's rms,
/// a second for the elements.
template <int GROUP>
__global__ void __launch_bounds__(kBlock)
    tolerance_kernel(const void* y, Elem e, const double* r, int64_t rows, int64_t row, Tolerance t, Stats* out) {
  __shared__ double part[kBlock / 32];
  const int lane = threadIdx.x % GROUP;
  const int64_t groups = (int64_t)gridDim.x * (kBlock / GROUP);
  const uint32_t poisoned = poison_bits(e);
  ThreadStats mine;
  for (int64_t k = blockIdx.x * (int64_t)(kBlock / GROUP) + threadIdx.x / GROUP; k < rows; k += groups) {
    const double* rr = r + k * row;
    double sum = 0;
    for (int64_t i = lane; i < row; i += GROUP) sum += rr[i] * rr[i];
    mine.ref2 += sum;
    sum = warp_sum(sum);
    if (GROUP > 32) {
      __syncthreads();  // the row before is done with part
      if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
      __syncthreads();
      sum = 0;
      for (int i = 0; i < kBlock / 32; ++i) sum += part[i];
    }
    const double rms = sqrt(sum / (double)row);
    for (int64_t i = lane; i < row; i += GROUP) {
      const int64_t at = k * row + i;
      const double v = load_elem(y, e, at), want = rr[i];
      if (!isfinite(v)) {
        if (load_bits(y, e, at) == poisoned) mine.count(mine.unwritten, mine.first_unwritten, at);
        else mine.count(mine.nonfinite, mine.first_nonfinite, at);
        continue;
      }
      const double err = fabs(v - want), size = fabs(want) + rms;
      if (!(err <= t.element_rel * t.u * fabs(want) + t.a * t.u * rms + 0x1p-24))
        mine.count(mine.mismatch, mine.first_mismatch, at);
      mine.err2 += err * err;
      mine.max_abs = fmax(mine.max_abs, err);
      if (size > 0) mine.max_rel = fmax(mine.max_rel, err / size);
    }
  }
  add_stats(mine, out);
}

__global__ void __launch_bounds__(kBlock)
    bits_kernel(const void* y, const void* want, int64_t count, Elem e, bool poisoned, Stats* out) {
  const int per = 16 / elem_bytes(e);
  const int64_t vectors = count / per, threads = (int64_t)gridDim.x * kBlock;
  const int64_t me = blockIdx.x * (int64_t)kBlock + threadIdx.x;
  const uint32_t poison = poison_bits(e);
  ThreadStats mine;
  auto element = [&](int64_t i) {
    const uint32_t got = load_bits(y, e, i), expected = load_bits(want, e, i);
    if (got == expected) return;
    const double v = load_elem(y, e, i), r = load_elem(want, e, i);
    if (poisoned && got == poison) mine.count(mine.unwritten, mine.first_unwritten, i);
    else if (poisoned && !isfinite(v) && isfinite(r)) mine.count(mine.nonfinite, mine.first_nonfinite, i);
    else mine.count(mine.mismatch, mine.first_mismatch, i);
    if (isfinite(v) && isfinite(r)) mine.max_abs = fmax(mine.max_abs, fabs(v - r));
  };
  for (int64_t k = me; k < vectors; k += threads) {
    const uint4 a = ((const uint4*)y)[k], b = ((const uint4*)want)[k];
    if (a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w) continue;
    for (int64_t i = k * per; i < (k + 1) * per; ++i) element(i);
  }
  if (me < count - vectors * per) element(vectors * per + me);
  add_stats(mine, out);
}

Stats* clear_stats(void* scratch, cudaStream_t s) {
  Stats zero = {};
  zero.first_nonfinite = zero.first_unwritten = zero.first_mismatch = ~0ull;
  check(cudaMemcpyAsync(scratch, &zero, sizeof zero, cudaMemcpyHostToDevice, s), "clear statistics");
  return (Stats*)scratch;
}

Stats read_stats(const Stats* device, cudaStream_t s) {
  check_launch("compare");
  Stats host;
  check(cudaMemcpyAsync(&host, device, sizeof host, cudaMemcpyDeviceToHost, s), "read statistics");
  check(cudaStreamSynchronize(s), "compare");
  return host;
}

double from_bits(unsigned long long bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// Element i of the reference, in device memory.
double fetch(const double* r, unsigned long long i) {
  double x = 0;
  check(cudaMemcpy(&x, r + i, sizeof x, cudaMemcpyDeviceToHost), "fetch element");
  return x;
}

/// Element i of a device tensor.
double fetch(const void* p, Elem e, unsigned long long i) {
  uint32_t raw = 0;
  check(cudaMemcpy(&raw, (const char*)p + i * elem_bytes(e), elem_bytes(e), cudaMemcpyDeviceToHost), "fetch element");
  return load_elem(&raw, e, 0);
}

/// The first two reasons: elements that are not numbers, elements that nobody wrote. False where there are none.
bool holes(Verdict* v, const Stats& found, const void* y, Elem e, int64_t count, const char* what) {
  if (found.nonfinite) {
    v->reason = RUN_NONFINITE;
    snprintf(v->text, sizeof v->text, "%s[%llu] is %g, %llu of %lld not finite", what, found.first_nonfinite,
             fetch(y, e, found.first_nonfinite), found.nonfinite, (long long)count);
  } else if (found.unwritten) {
    v->reason = RUN_UNWRITTEN;
    snprintf(v->text, sizeof v->text, "%s[%llu] is not written, %llu of %lld", what, found.first_unwritten,
             found.unwritten, (long long)count);
  }
  return v->reason != 0;
}

__global__ void poison_kernel(void* p, Elem e, int64_t count) {
  const int per = 16 / elem_bytes(e);
  const uint32_t bits = poison_bits(e);
  const uint32_t word = per == 4 ? bits : per == 8 ? bits * 0x10001u : bits * 0x1010101u;
  const int64_t vectors = count / per, threads = (int64_t)gridDim.x * blockDim.x;
  const int64_t me = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  for (int64_t k = me; k < vectors; k += threads) ((uint4*)p)[k] = make_uint4(word, word, word, word);
  if (me < count - vectors * per) store_bits(p, e, vectors * per + me, bits);
}

__global__ void round_kernel(void* out, Elem e, const double* ref, int64_t count) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
    switch (e) {  // from double in one rounding
      case E_F16: ((__half*)out)[i] = __double2half(ref[i]); break;
      case E_BF16: ((__nv_bfloat16*)out)[i] = __double2bfloat16(ref[i]); break;
      case E_E4M3: ((__nv_fp8_e4m3*)out)[i] = __nv_fp8_e4m3(ref[i]); break;
      case E_I32: ((int32_t*)out)[i] = (int32_t)ref[i]; break;
      default: store_elem(out, e, i, (float)ref[i]);
    }
  }
}

}  // namespace

void fill_rope_table(float* table, int64_t d, cudaStream_t s) {
  rope_table_kernel<<<grid_for(kRopePositions * d / 2), 256, 0, s>>>(table, d / 2);
  check_launch("rotary table");
}

size_t judge_bytes(int64_t rows) {
  (void)rows;
  return sizeof(Stats);
}

Verdict judge_tolerance(const void* y, Elem e, const double* r, int64_t count, int64_t row, Tolerance t,
                        const char* what, void* scratch, cudaStream_t s) {
  if (row <= 0 || count % row != 0)
    trouble("%s: an error row of %lld does not divide %lld", what, (long long)row, (long long)count);
  Stats* stats = clear_stats(scratch, s);
  const int64_t rows = count / row;
  if (row <= 1024) {
    const int64_t blocks = (rows + kBlock / 32 - 1) / (kBlock / 32);
    tolerance_kernel<32><<<(int)(blocks < 4096 ? blocks : 4096), kBlock, 0, s>>>(y, e, r, rows, row, t, stats);
  } else {
    tolerance_kernel<kBlock><<<(int)(rows < 4096 ? rows : 4096), kBlock, 0, s>>>(y, e, r, rows, row, t, stats);
  }
  const Stats found = read_stats(stats, s);
  Verdict v = pass();
  v.max_abs = from_bits(found.max_abs);
  v.max_rel = from_bits(found.max_rel);
  const double norm = sqrt(found.err2), bound = t.n * t.u * sqrt(found.ref2);
  if (!holes(&v, found, y, e, count, what) && found.mismatch) {
    v.reason = RUN_MISMATCH;
    snprintf(v.text, sizeof v.text, "%s[%llu] is %.6g, expected %.6g, %llu of %lld", what, found.first_mismatch,
             fetch(y, e, found.first_mismatch), fetch(r, found.first_mismatch), found.mismatch, (long long)count);
  } else if (!v.reason && !t.element_only && !(norm <= bound)) {
    v.reason = RUN_LOW_PRECISION;
    snprintf(v.text, sizeof v.text, "%s: error norm %.3g, bound %.3g", what, norm, bound);
  }
  return v;
}

Verdict judge_bits(const void* y, const void* want, int64_t count, Elem e, const char* what, void* scratch,
                   cudaStream_t s, bool poisoned) {
  Stats* stats = clear_stats(scratch, s);
  bits_kernel<<<grid_for(count * elem_bytes(e) / 16), kBlock, 0, s>>>(y, want, count, e, poisoned, stats);
  const Stats found = read_stats(stats, s);
  Verdict v = pass();
  v.max_abs = from_bits(found.max_abs);
  if (!holes(&v, found, y, e, count, what) && found.mismatch) {
    v.reason = RUN_MISMATCH;
    snprintf(v.text, sizeof v.text, "%s[%llu] is %.6g, expected %.6g, %llu of %lld", what, found.first_mismatch,
             fetch(y, e, found.first_mismatch), fetch(want, e, found.first_mismatch), found.mismatch, (long long)count);
  }
  if (v.reason) v.max_rel = -1;  // of a bit pattern, a size to relate to is not known
  return v;
}

Verdict fail(int reason, const char* fmt, ...) {
  Verdict v = {reason, -1, -1, ""};
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(v.text, sizeof v.text, fmt, ap);
  va_end(ap);
  return v;
}

Verdict both(const Verdict& a, const Verdict& b) {
  const bool second = a.reason == 0 ? b.reason != 0 : b.reason != 0 && b.reason < a.reason;
  Verdict v = second ? b : a;
  v.max_abs = fmax(a.max_abs, b.max_abs);
  v.max_rel = fmax(a.max_rel, b.max_rel);
  return v;
}

void poison(void* p, Elem e, int64_t count, cudaStream_t s) {
  poison_kernel<<<grid_for(count * elem_bytes(e) / 16), 256, 0, s>>>(p, e, count);
  check_launch("poison");
}

void round_reference(void* out, Elem e, const double* ref, int64_t count, cudaStream_t s) {
  round_kernel<<<grid_for(count), 256, 0, s>>>(out, e, ref, count);
  check_launch("round");
}

std::vector<double> widen(const Instance& host, int i) {
  static_assert((int)E_F32 == CREF_F32 && (int)E_F16 == CREF_F16 && (int)E_BF16 == CREF_BF16 &&
                    (int)E_E4M3 == CREF_E4M3 && (int)E_I8 == CREF_I8 && (int)E_U8 == CREF_U8 && (int)E_I32 == CREF_I32,
                "cref.h names the same types");
  std::vector<double> out((size_t)host.buffer[i].count);
  for (size_t k = 0; k < out.size(); ++k)
    out[k] = cref_load(host.ptr[i], (enum cref_type)host.buffer[i].elem, (int64_t)k);
  return out;
}

double certify_error(const double* got, const double* want, int64_t count) {
  double sum = 0, worst = 0;
  for (int64_t i = 0; i < count; ++i) sum += want[i] * want[i];
  const double rms = sqrt(sum / (double)count);
  for (int64_t i = 0; i < count; ++i) {
    if (got[i] == want[i]) continue;
    const double e = fabs(got[i] - want[i]) / (fabs(want[i]) + rms);
    if (!(e <= worst)) worst = std::isfinite(e) ? e : HUGE_VAL;
  }
  return worst;
}

}  // namespace gpurun

#include "gpurun/certify.cuh"

#include <cstring>
#include <string>
#include <vector>

#include "gpurun/arena.cuh"
#include "gpurun/common.cuh"
#include "gpurun/cref.h"
#include "gpurun/names.cuh"

namespace gpurun {
namespace {

constexpr size_t kArenaBytes = 1ull << 30;

struct Report {
  int lines = 0, wrong = 0;

  __attribute__((format(printf, 3, 4))) void line(bool ok, const char* fmt, ...) {
    printf("%s %d - ", ok ? "ok" : "not ok", ++lines);
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    wrong += !ok;
  }
};

/// n(sigma) on the GPU against cref.c, bit for bit, in every float type.
void certify_generator(Arena& arena, cudaStream_t s, Report* report) {
  constexpr int64_t n = 100000;
  arena.reserve(kArenaBytes);
  for (Elem e : {E_F32, E_F16, E_BF16, E_E4M3}) {
    void* p = arena.take((size_t)n * elem_bytes(e));
    fill_with(p, e, n, Normal{77, 3, 4.f, 1.f}, s);
    std::vector<char> host((size_t)n * elem_bytes(e));
    check(cudaMemcpyAsync(host.data(), p, host.size(), cudaMemcpyDeviceToHost, s), "copy");
    check(cudaStreamSynchronize(s), "copy");
    int64_t bad = 0;
    for (int64_t i = 0; i < n; ++i) {
      const enum cref_type type = (enum cref_type)e;
      const float want = 1.f + 4.f * cref_normal(77, 3, (uint64_t)i);
      bad += cref_load(host.data(), type, i) != cref_round(want, type);
    }
    report->line(bad == 0, "generator, element type %d: %lld of %lld differ", (int)e, (long long)bad, (long long)n);
  }
}

/// Host copies of an instance's buffers.
struct Host {
  Instance in;
  std::vector<std::vector<char>> bytes;

  Host(const Instance& device, cudaStream_t s) : in(device) {
    for (int i = 0; i < in.n; ++i) {
      bytes.emplace_back((size_t)in.buffer[i].count * elem_bytes(in.buffer[i].elem));
      check(cudaMemcpyAsync(bytes[i].data(), device.ptr[i], bytes[i].size(), cudaMemcpyDeviceToHost, s), "copy");
    }
    check(cudaStreamSynchronize(s), "copy");
    for (int i = 0; i < in.n; ++i) in.ptr[i] = bytes[i].data();
  }
};

/// The first output that is not inout, or -1.
int first_output(const Instance& in) {
  for (int i = 0; i < in.n; ++i)
    if (in.buffer[i].role == Role::output) return i;
  return -1;
}

void certify_judge(const OpModule& op, const Instance& in, void* ref, void* scratch, Family f, uint64_t seed,
                   const char* name, cudaStream_t s, Report* report) {
  const auto judged = [&] { return op.judge(in, ref, f, seed, scratch, s); };
  op.answer(in, ref, f, seed, s);
  const Verdict best = judged();
  report->line(best.reason == 0, "%s: the best answer passes: %s", name, best.text);
  const int o = first_output(in);
  if (o < 0) return;
  const Buffer& b = in.buffer[o];
  const int width = elem_bytes(b.elem);
  const auto damaged = [&](uint32_t bits, int64_t at) {
    op.answer(in, ref, f, seed, s);
    check(cudaMemcpyAsync((char*)in.ptr[o] + at * width, &bits, (size_t)width, cudaMemcpyHostToDevice, s), "copy");
    return judged().reason;
  };
  report->line(damaged(poison_bits(b.elem), b.count - 1) == RUN_UNWRITTEN, "%s: a last element unwritten is seen",
               name);
  if (b.elem == E_F32 || b.elem == E_F16 || b.elem == E_BF16) {
    const uint32_t nan = b.elem == E_F32 ? 0x7FFFFFFFu : 0x7FFFu;
    report->line(damaged(nan, b.count / 2) == RUN_NONFINITE, "%s: a NaN is seen", name);
  }
  poison(in.ptr[o], b.elem, b.count, s);
  report->line(judged().reason == RUN_UNWRITTEN, "%s: an unwritten output is seen", name);
}

void certify_case(const OpModule& op, Arena& arena, const Shape& shape, Dtype dtype, Family f, int trial,
                  cudaStream_t s, Report* report) {
  const std::string text = std::string(op.name) + " " + dtype_name(dtype) + " " + shape_name(shape) + " " +
                           family_name(f) + (trial ? " trial " + std::to_string(trial) : "");
  const char* name = text.c_str();
  const uint64_t seed = (gen_hash(2026, 0, (uint64_t)f) & ~15ull) | (uint64_t)trial;

  arena.reserve(kArenaBytes);
  Instance in = lay_out(op, shape, dtype);
  place_buffers(arena, &in);
  void* scratch = arena.take(kScratchBytes);
  const size_t ref_bytes = op.reference_bytes(shape, dtype);
  void* ref = arena.take(ref_bytes);
  for (int i = 0; i < in.n; ++i)
    if (in.buffer[i].role == Role::output) poison(in.ptr[i], in.buffer[i].elem, in.buffer[i].count, s);
  op.fill(in, f, seed, s);
  if (op.aim) op.aim(in, ref, f, seed, s);
  op.reference(in, ref, f, seed, s);
  const Host host(in, s);
  std::vector<double> host_ref(ref_bytes / sizeof(double) + 1);
  check(cudaMemcpyAsync(host_ref.data(), ref, ref_bytes, cudaMemcpyDeviceToHost, s), "copy");
  check(cudaStreamSynchronize(s), "copy");
  const double error = op.certify(host.in, host_ref.data(), f, seed);
  report->line(error <= 1e-10, "%s: relative error %.3g", name, error);
  if (op.answer) certify_judge(op, in, ref, scratch, f, seed, name, s, report);
}

}  // namespace

int certify(const char* only) {
  Report report;
  Arena arena(kArenaBytes);
  cudaStream_t s;
  check(cudaStreamCreate(&s), "stream");
  certify_generator(arena, s, &report);
  bool found = !only;
  for (int i = 0; const OpModule* op = op_at(i); ++i) {
    if (only && strcmp(only, op->name)) continue;
    found = true;
    if (!op->certify || !op->small || !op->dtypes) {
      report.line(false, "%s: nothing to certify it by", op->name);
      continue;
    }
    for (int d = 0; d < DTYPES; ++d) {
      if (!(op->dtypes >> d & 1)) continue;
      Shape shapes[3];
      op->small((Dtype)d, shapes);
      for (const Shape& shape : shapes)
        for (Family f : {F1, F2, F3, F2B}) {
          if (!(op->families(shape, (Dtype)d) & family_bit(f))) continue;
          const int n = op->trials ? op->trials(shape, (Dtype)d, f) : 1;
          for (int t = 0; t < n; ++t) certify_case(*op, arena, shape, (Dtype)d, f, t, s, &report);
        }
    }
  }
  if (!found) trouble("no such op '%s'", only);
  printf("1..%d\n", report.lines);
  check(cudaStreamDestroy(s), "stream");
  return report.wrong;
}

}  // namespace gpurun

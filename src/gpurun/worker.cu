// bench-worker: holds the context and the arena, and runs candidates for bench. See protocol.h.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "gpurun/certify.cuh"
#include "gpurun/clock.cuh"
#include "gpurun/error.cuh"
#include "gpurun/protocol.h"
#include "gpurun/stream.cuh"
#include "gpurun/verify.cuh"

using namespace gpurun;

namespace {

enum { kDone = 0, kViolation = 1, kUsage = 2, kCannot = 3, kBug = 4 };  // as of every program

const char usage[] =
    "usage: bench-worker --socket FD [--arena MIB]\n"
    "       bench-worker --certify [OP]\n"
    "Runs candidate kernels on the first CUDA device for bench, which starts it.\n"
    "  --socket FD   answer the requests of protocol.h on this SOCK_SEQPACKET socket until it is closed\n"
    "  --arena MIB   take at most so much device memory (60 % of it)\n"
    "  --certify     hold the reference kernels and the tests of outputs against plain C; TAP on stdout\n";

[[noreturn]] void die(int code, const char* what, const char* value) {
  fprintf(stderr, value ? "bench-worker: %s '%s'\n" : "bench-worker: %s\n", what, value);
  _exit(code);
}

long long number(const char* option, const char* text) {
  char* end;
  const long long n = text ? strtoll(text, &end, 10) : 0;
  if (!text) die(kUsage, "an option wants a number:", option);
  if (*end || end == text || n < 0) die(kUsage, "not a number:", text);
  return n;
}

/// Faults of the machine, whoever's kernel was running.
bool of_the_machine(cudaError_t e) {
  switch (e) {
    case cudaErrorMemoryAllocation:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

class Worker {
 public:
  Worker(int fd, size_t arena_limit) : fd_(fd), arena_(arena_limit) { check(cudaStreamCreate(&stream_), "stream"); }

  /// Returns when the socket is closed.
  void serve() {
    run_request r;
    for (;;) {
      const ssize_t n = recv(fd_, &r, sizeof r, 0);
      if (n == 0) return;
      if (n < 0) die(kCannot, "cannot read a request", nullptr);
      if (n != (ssize_t)sizeof r) die(kBug, "a request of another size: bench and bench-worker differ", nullptr);
      // Strings come whole or not at all.
      r.op[sizeof r.op - 1] = r.dtype[sizeof r.dtype - 1] = r.object[sizeof r.object - 1] = 0;
      const bool sound = answer(r);
      if (send(fd_, &answer_, sizeof answer_, MSG_NOSIGNAL) != (ssize_t)sizeof answer_) _exit(kCannot);
      if (!sound) _exit(kViolation);  // without a destructor: the context is lost
    }
  }

 private:
  /// False when the context is no good any more.
  bool answer(const run_request& r) {
    answer_ = {};
    answer_.id = r.id;
    answer_.max_abs_err = answer_.max_rel_err = -1;
    answer_.floor_ms = answer_.stream_ms = -1;
    answer_.registers = answer_.smem_bytes = answer_.local_bytes = answer_.threads = -1;
    answer_.sm_mhz_before = answer_.sm_mhz_after = -1;
    bool sound = true;
    try {
      run(r);
      answer_.status = RUN_PASSED;
    } catch (const Refusal& e) {
      say(e.status, e.reason, e.text);
      session_.reset();
    } catch (const Trouble& e) {
      say(RUN_INFRA, REASON_NONE, e.text);
      session_.reset();
    } catch (const CudaError& e) {
      char text[RUN_TEXT];
      snprintf(text, sizeof text, "%s: %s", cudaGetErrorName(e.code), e.what);
      say(e.candidate && !of_the_machine(e.code) ? RUN_CRASHED : RUN_INFRA, REASON_NONE, text);
      sound = false;
    }
    answer_.arena_bytes = (int64_t)arena_.bytes();
    return sound;
  }

  void say(int status, int reason, const char* text) {
    answer_.status = status;
    answer_.reason = reason;
    snprintf(answer_.text, sizeof answer_.text, "%s", text);
  }

  void run(const run_request& r) {
    if (r.what & (RUN_VERIFY | RUN_TIME)) {
      if (r.what & RUN_VERIFY) {
        session_.reset();  // before the next one asks for the arena
        session_.reset(new Session(arena_, stream_, r));
      } else if (!session_ || !session_->serves(r)) {
        trouble("timing without verification");
      }
      const KernelFacts& f = session_->facts();
      answer_.registers = f.registers;
      answer_.smem_bytes = f.smem_bytes;
      answer_.local_bytes = f.local_bytes;
      answer_.threads = f.threads;
      if (r.what & RUN_VERIFY) session_->verify(r.seed, &answer_);
      if (r.what & RUN_TIME) session_->time(r, &answer_);
      check_run(cudaDeviceSynchronize());
    }
    if (!(r.what & (RUN_STREAM | RUN_FLOOR))) return;
    try {
      yardsticks(r);
    } catch (const Refusal& e) {  // these kernels are ours
      trouble("yardstick: %s", e.text);
    } catch (CudaError& e) {
      e.candidate = false;
      throw;
    }
  }

  void yardsticks(const run_request& r) {
    const size_t in = stream_bytes(r.bytes_read), out = stream_bytes(r.bytes_written);
    std::unique_ptr<Rig> own;
    if (!session_) own.reset(new Rig(arena_, stream_, Arena::taken(in) + Arena::taken(out)));
    const Rig& rig = session_ ? session_->rig() : *own;
    Sampler sampler(stream_, rig.overwritten, rig.read);
    if (r.what & RUN_FLOOR) answer_.floor_ms = empty_kernel_ms(sampler);
    if (!(r.what & RUN_STREAM)) return;
    const size_t mark = arena_.mark();
    if (session_) arena_.rewind(session_->free_mark());
    void* from = arena_.take(in);
    void* to = arena_.take(out);
    answer_.stream_ms = stream_ms(sampler, from, r.bytes_read, to, r.bytes_written, stream_);
    arena_.rewind(mark);
  }

  int fd_;
  Arena arena_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Session> session_;
  run_answer answer_ = {};
};

run_hello hello() {
  run_hello h = {};
  cudaDeviceProp p;
  size_t free_bytes, total;
  int runtime;
  check(cudaGetDeviceProperties(&p, 0), "device");
  check(cudaMemGetInfo(&free_bytes, &total), "memory");
  check(cudaRuntimeGetVersion(&runtime), "version");
  h.protocol = RUN_PROTOCOL;
  snprintf(h.gpu, sizeof h.gpu, "%.*s", (int)sizeof h.gpu - 1, p.name);
  snprintf(h.driver, sizeof h.driver, "%s", driver_version());
  snprintf(h.cuda, sizeof h.cuda, "%d.%d", runtime / 1000, runtime % 1000 / 10);
  h.cc = p.major * 10 + p.minor;
  h.sms = p.multiProcessorCount;
  h.l2_bytes = p.l2CacheSize;
  h.memory_bytes = (int64_t)total;
  return h;
}

int serve(int fd, long long arena_mib) {
  // A worker that hangs in a candidate does not outlive bench, and a candidate's crash leaves no core.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const run_hello h = hello();
  if (send(fd, &h, sizeof h, MSG_NOSIGNAL) != (ssize_t)sizeof h) return kCannot;
  const size_t most = (size_t)(h.memory_bytes / 10 * 6);
  Worker worker(fd, arena_mib > 0 && (size_t)arena_mib << 20 < most ? (size_t)arena_mib << 20 : most);
  worker.serve();
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  int fd = -1;
  long long arena_mib = 0;
  bool certifying = false;
  const char* op = nullptr;
  for (int i = 1; i < argc; ++i) {
    const char* a = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (!strcmp(a, "--help")) return fputs(usage, stdout), kDone;
    if (!strcmp(a, "--socket")) fd = (int)number(a, value), ++i;
    else if (!strcmp(a, "--arena")) arena_mib = number(a, value), ++i;
    else if (!strcmp(a, "--certify")) certifying = true;
    else if (certifying && a[0] != '-' && !op) op = a;
    else die(kUsage, "unknown option", a);
  }
  if (certifying == (fd >= 0)) die(kUsage, "wants --socket FD or --certify", nullptr);
  try {
    check(cudaSetDevice(0), "no CUDA device");
    check(cudaFree(nullptr), "no CUDA context");
    if (!certifying) return serve(fd, arena_mib);
    return certify(op) ? kViolation : kDone;
  } catch (const CudaError& e) {
    char text[RUN_TEXT];
    snprintf(text, sizeof text, "%s: %s", e.what, cudaGetErrorName(e.code));
    die(kCannot, text, nullptr);
  } catch (const Trouble& e) {
    die(kCannot, e.text, nullptr);
  }
}

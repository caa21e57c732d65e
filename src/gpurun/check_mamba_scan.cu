// mamba_scan: axes B L D N; u, dt, z[B,L,D], A[D,N], Bm, Cm[B,L,N], Dskip[D], dt_bias[D],
// h0[B,D,N] -> y[B,L,D], h[B,D,N]. y and h have bounds of their own: a row of y is a time step, one of h a channel.
#include <cmath>

#include "gpurun/common.cuh"
#include "gpurun/cref_mamba_scan.h"

namespace gpurun {
namespace {

enum { U, DT, Z, A, BM, CM, DSKIP, DT_BIAS, H0, Y, H };

int layout(const Shape& shape, Dtype dtype, Buffer* out) {
  const int64_t B = shape.v[0], L = shape.v[1], D = shape.v[2], N = shape.v[3];
  const Elem e = dtype_elem(dtype);
  out[U] = {"u", Role::input, e, B * L * D};
  out[DT] = {"dt", Role::input, e, B * L * D};
  out[Z] = {"z", Role::input, e, B * L * D};
  out[A] = {"A", Role::input, E_F32, D * N};
  out[BM] = {"Bm", Role::input, e, B * L * N};
  out[CM] = {"Cm", Role::input, e, B * L * N};
  out[DSKIP] = {"Dskip", Role::input, E_F32, D};
  out[DT_BIAS] = {"dt_bias", Role::input, E_F32, D};
  out[H0] = {"h0", Role::input, E_F32, B * D * N};
  out[Y] = {"y", Role::output, e, B * L * D};
  out[H] = {"h", Role::output, E_F32, B * D * N};
  return 11;
}

unsigned families(const Shape&, Dtype) { return family_bit(F1) | family_bit(F2) | family_bit(F3); }

/// -(n + 1) * U[0.5, 1.5): the states' decays are no powers of one another.
struct Decays {
  uint64_t seed;
  int64_t N;
  __device__ float operator()(int64_t i) const {
    return -gen_mul((float)(i % N + 1), gen_uniform(gen_hash(seed, A, (uint64_t)i), 0.5f, 1.5f));
  }
};

struct Constant {
  float value;
  __device__ float operator()(int64_t) const { return value; }
};

void fill(const Instance& in, Family f, uint64_t seed, cudaStream_t s) {
  const auto normal = [&](int i, float sigma, float mean) {
    fill_with(in.ptr[i], in.buffer[i].elem, in.buffer[i].count, Normal{seed, i, sigma, mean}, s);
  };
  for (int i : {U, Z, BM, CM, DSKIP}) normal(i, 1.f, 0.f);
  if (f == F3) normal(DT, 8.f, 16.f);  // both branches of softplus
  else normal(DT, 1.f, 0.f);
  normal(H0, f == F2 ? 4.f : 1.f, 0.f);
  fill_with(in.ptr[A], E_F32, in.buffer[A].count, Decays{seed, in.shape.v[3]}, s);
  fill_with(in.ptr[DT_BIAS], E_F32, in.buffer[DT_BIAS].count, Constant{f == F2 ? -6.f : -4.f}, s);
}

/// y, then h.
size_t reference_bytes(const Shape& shape, Dtype) {
  const int64_t B = shape.v[0], L = shape.v[1], D = shape.v[2], N = shape.v[3];
  return sizeof(double) * (B * L * D + B * D * N);
}

/// delta = softplus(dt + dt_bias), once for all states.
__global__ void __launch_bounds__(256)
delta_kernel(const void* dt, Elem e, const float* dt_bias, double* delta, int64_t count, int64_t D) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
    const double v = load_elem(dt, e, i) + (double)dt_bias[i % D];
    delta[i] = v > 20 ? v : log1p(exp(v));
  }
}

struct Inputs {
  const void *u, *z, *bm, *cm;
  const float *a, *skip, *h0;
  Elem e;
  int64_t L, D;
};

constexpr int kThreads = 256;
constexpr int kSteps = 4;  // whose loads and exponentials are under way together

/// LANES threads per channel, STATES states each. y holds the deltas and is overwritten step by step: every thread of
/// a channel has put its delta into the sum that is then stored over it.
template <int LANES, int STATES>
__global__ void __launch_bounds__(kThreads) scan_kernel(Inputs in, double* y, double* h) {
  constexpr int N = LANES * STATES;
  const int lane = threadIdx.x % LANES;
  const int64_t channel = blockIdx.x * (int64_t)(kThreads / LANES) + threadIdx.x / LANES;
  const int64_t b = channel / in.D, d = channel % in.D;
  double state[STATES], a[STATES];
  for (int k = 0; k < STATES; ++k) {
    state[k] = in.h0[channel * N + lane + k * LANES];
    a[k] = in.a[d * N + lane + k * LANES];
  }
  const double skip = in.skip[d];
  for (int64_t l0 = 0; l0 < in.L; l0 += kSteps) {
    double u[kSteps], gain[kSteps][STATES], decay[kSteps][STATES], c[kSteps][STATES];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      // Beyond the end the last step is read again and not used.
      const int64_t l = l0 + i < in.L ? l0 + i : in.L - 1, row = b * in.L + l;
      const double delta = y[row * in.D + d];
      u[i] = load_elem(in.u, in.e, row * in.D + d);
#pragma unroll
      for (int k = 0; k < STATES; ++k) {
        const int64_t at = row * N + lane + k * LANES;
        decay[i][k] = exp(delta * a[k]);
        gain[i][k] = delta * u[i] * load_elem(in.bm, in.e, at);
        c[i][k] = load_elem(in.cm, in.e, at);
      }
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (l0 + i >= in.L) break;
      double o = 0;
#pragma unroll
      for (int k = 0; k < STATES; ++k) {
        state[k] = decay[i][k] * state[k] + gain[i][k];
        o += state[k] * c[i][k];
      }
#pragma unroll
      for (int x = LANES / 2; x > 0; x /= 2) o += __shfl_xor_sync(0xffffffffu, o, x);
      if (lane == 0) {
        const int64_t at = (b * in.L + l0 + i) * in.D + d;
        const double z = load_elem(in.z, in.e, at);
        y[at] = (o + skip * u[i]) * z / (1 + exp(-z));
      }
    }
  }
  for (int k = 0; k < STATES; ++k) h[channel * N + lane + k * LANES] = state[k];
}

template <int LANES, int STATES>
void scan(const Inputs& in, double* y, double* h, int64_t B, cudaStream_t s) {
  scan_kernel<LANES, STATES><<<(int)(B * in.D / (kThreads / LANES)), kThreads, 0, s>>>(in, y, h);
}

void reference(const Instance& in, void* ref, Family, uint64_t, cudaStream_t s) {
  const int64_t B = in.shape.v[0], L = in.shape.v[1], D = in.shape.v[2], N = in.shape.v[3], count = B * L * D;
  // 64 channels are whole blocks for every N: no thread is without work, and all take part in the sums.
  if (D % 64) trouble("mamba_scan with D %lld", (long long)D);
  double *y = (double*)ref, *h = y + count;
  delta_kernel<<<grid_for(count), 256, 0, s>>>(in.ptr[DT], in.buffer[DT].elem, (const float*)in.ptr[DT_BIAS], y, count,
                                               D);
  check_launch("mamba_scan deltas");
  const Inputs inputs = {in.ptr[U], in.ptr[Z], in.ptr[BM], in.ptr[CM], (const float*)in.ptr[A],
                         (const float*)in.ptr[DSKIP], (const float*)in.ptr[H0], in.buffer[U].elem, L, D};
  switch (N) {
    case 8: scan<8, 1>(inputs, y, h, B, s); break;
    case 16: scan<16, 1>(inputs, y, h, B, s); break;
    case 32: scan<32, 1>(inputs, y, h, B, s); break;
    case 64: scan<32, 2>(inputs, y, h, B, s); break;
    default: trouble("mamba_scan with N %lld", (long long)N);
  }
  check_launch("mamba_scan reference");
}

/// |error| <= 5e-4 (|r| + rms over N): roundings of the decays add up over L.
Tolerance state_bound() {
  const double u = round_off(E_F32);
  return {u, 5e-4 / u, 0, 5e-4 / u, true};
}

Verdict judge(const Instance& in, const void* ref, Family, uint64_t, void* scratch, cudaStream_t s) {
  const Buffer &y = in.buffer[Y], &h = in.buffer[H];
  const double* r = (const double*)ref;
  const Verdict output = judge_tolerance(in.ptr[Y], y.elem, r, y.count, in.shape.v[2], tolerance(y.elem, 2, 1), "y",
                                         scratch, s);
  return both(output, judge_tolerance(in.ptr[H], h.elem, r + y.count, h.count, in.shape.v[3], state_bound(), "h",
                                      scratch, s));
}

cudaError_t call(void* fn, const Instance& in, void* workspace, size_t workspace_bytes, cudaStream_t s) {
  using Launcher = cudaError_t(const void*, const void*, const void*, const float*, const void*, const void*,
                               const float*, const float*, const float*, void*, float*, int, int, int, int, void*,
                               size_t, cudaStream_t);
  const int64_t* v = in.shape.v;
  return ((Launcher*)fn)(in.ptr[U], in.ptr[DT], in.ptr[Z], (const float*)in.ptr[A], in.ptr[BM], in.ptr[CM],
                         (const float*)in.ptr[DSKIP], (const float*)in.ptr[DT_BIAS], (const float*)in.ptr[H0],
                         in.ptr[Y], (float*)in.ptr[H], (int)v[0], (int)v[1], (int)v[2], (int)v[3], workspace,
                         workspace_bytes, s);
}

size_t workspace(void* fn, const Instance& in) {
  using Size = size_t(int, int, int, int);
  const int64_t* v = in.shape.v;
  return fn ? ((Size*)fn)((int)v[0], (int)v[1], (int)v[2], (int)v[3]) : 0;
}

int neighbours(const Shape& shape, Dtype, Shape out[2]) {
  const int64_t B = shape.v[0], L = shape.v[1], D = shape.v[2], N = shape.v[3];
  out[0] = Shape{{B, L + 1, D, N}};
  out[1] = Shape{{B, L > 1 ? L - 1 : L, D + 64, N}};
  return 2;
}

void small(Dtype, Shape out[3]) {
  out[0] = Shape{{2, 77, 64, 16}};
  out[1] = Shape{{1, 5, 192, 64}};
  out[2] = Shape{{3, 1, 64, 8}};
}

double certify(const Instance& host, const void* ref, Family, uint64_t) {
  std::vector<double> in[H0 + 1];
  for (int i = 0; i <= H0; ++i) in[i] = widen(host, i);
  const int64_t* v = host.shape.v;
  std::vector<double> y(in[U].size()), h(in[H0].size());
  cref_mamba_scan(in[U].data(), in[DT].data(), in[Z].data(), in[A].data(), in[BM].data(), in[CM].data(),
                  in[DSKIP].data(), in[DT_BIAS].data(), in[H0].data(), y.data(), h.data(), v[0], v[1], v[2], v[3]);
  const double* r = (const double*)ref;
  return fmax(certify_error(r, y.data(), (int64_t)y.size()), certify_error(r + y.size(), h.data(), (int64_t)h.size()));
}

void answer(const Instance& in, const void* ref, Family, uint64_t, cudaStream_t s) {
  const Buffer &y = in.buffer[Y], &h = in.buffer[H];
  round_reference(in.ptr[Y], y.elem, (const double*)ref, y.count, s);
  round_reference(in.ptr[H], h.elem, (const double*)ref + y.count, h.count, s);
}

}  // namespace

extern const OpModule ops_mamba_scan[] = {
    {"mamba_scan", layout, families, fill, reference_bytes, reference, judge, call, workspace, neighbours, nullptr,
     nullptr, 1u << FP16 | 1u << BF16, small, certify, answer},
    {}};

}  // namespace gpurun

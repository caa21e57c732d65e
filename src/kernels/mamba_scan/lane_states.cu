// Selective state-space scan. LANES neighbouring lanes share a channel, each with N / LANES of its states, so that few
// channels still fill the GPU. The group reads LANES time steps at once, a lane each, spreads them by shuffles, and
// sums its partial outputs by an exchange that leaves every lane with the finished output of its own step.
//! idea states of a channel spread over lanes, joined by shuffles
//! says index_call: expression preceding parentheses of apparent call must have (pointer-to-) function type
//! says shuffle_width: no instance of overloaded function "__shfl_sync" matches the argument list
//! says vec_type: argument list for class template "Vec" is missing
//! dtypes fp16 bf16
//! kernel grid=B*(D*LANES/THREADS) block=THREADS smem=0 regs=max(48,32+3*N/LANES) read=e*(3*B*L*D+2*B*L*N*D*LANES/THREADS)+4*(2*B*D*N+2*B*D) once=e*(3*B*L*D+2*B*L*N)+4*(D*N+2*D+B*D*N) write=e*B*L*D+4*B*D*N inflight=THREADS*(3*e+2*e*N) ops=B*L*D*(6*N+40+8*LANES) sfu=B*L*D*(N+4) chain=cdiv(L,LANES)*(LAT+150+LANES*(60+6*N/LANES)+100)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 32 64 128 256
constexpr int THREADS = 128;
//! param 2 4 8
constexpr int LANES = 4;  // lanes per channel
//! param 0 1
constexpr int AHEAD = 1;  // read the next group of time steps before working on this one
//! legal D*LANES%THREADS==0
constexpr int CHANNELS = THREADS / LANES;
constexpr float LOG2E = 1.4426950408889634f;
constexpr unsigned ALL = 0xffffffffu;

template <int K>
struct alignas(K * sizeof(elem) < 16 ? K * sizeof(elem) : 16) Vec {
  elem v[K];
};

struct Step {
  float v, x, gate;
};

template <int N>
static __global__ void __launch_bounds__(THREADS)
    scan_kernel(const elem *__restrict__ u, const elem *__restrict__ dt, const elem *__restrict__ z,
                const float *__restrict__ A, const elem *__restrict__ Bm, const elem *__restrict__ Cm,
                const float *__restrict__ Dskip, const float *__restrict__ dt_bias, const float *__restrict__ h0,
                elem *__restrict__ y, float *__restrict__ h, int L, int D) {
  constexpr int K = N / LANES;
  int part = threadIdx.x % LANES, d = blockIdx.x * CHANNELS + threadIdx.x / LANES, b = blockIdx.y;
  size_t row = (size_t)b * L, first = ((size_t)b * D + d) * N + part * K;
//! fault bias_sign wrong: float a[K], s[K], bias = -dt_bias[d], skip = Dskip[d];
  float a[K], s[K], bias = dt_bias[d], skip = Dskip[d];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    a[k] = A[(size_t)d * N + part * K + k] * LOG2E;
//! fault part_zero wrong: s[k] = h0[((size_t)b * D + d) * N + k];
    s[k] = h0[first + k];
  }
  auto read = [&](int l) {
    Step t = {0.f, 0.f, 0.f};
    if (l < L) {
      size_t i = (row + l) * D + d;
//! fault index_call compile: t = {(float)dt(i) + bias, (float)u[i], (float)z[i]};
      t = {(float)dt[i] + bias, (float)u[i], (float)z[i]};
    }
    return t;
  };
  Step next = read(part);
  for (int l = 0; l < L; l += LANES) {
    Step now = next;
    if constexpr (AHEAD) next = read(l + LANES + part);
    float delta = now.v > 20.f ? now.v : log1pf(__expf(now.v)), dx = delta * now.x, o[LANES];
#pragma unroll
    for (int t = 0; t < LANES; ++t) {
      o[t] = 0.f;
      if (l + t >= L) continue;  // the same for the whole block
//! fault shuffle_width compile: float dt_t = __shfl_sync(ALL, delta, t, LANES, ALL), dx_t = __shfl_sync(ALL, dx, t, LANES);
//! fault group_lane wrong: float dt_t = __shfl_sync(ALL, delta, t), dx_t = __shfl_sync(ALL, dx, t);
      float dt_t = __shfl_sync(ALL, delta, t, LANES), dx_t = __shfl_sync(ALL, dx, t, LANES);
//! fault vec_type compile: Vec<K> bv = *(const Vec *)(Bm + (row + l + t) * N + part * K);
      Vec<K> bv = *(const Vec<K> *)(Bm + (row + l + t) * N + part * K);
      Vec<K> cv = *(const Vec<K> *)(Cm + (row + l + t) * N + part * K);
#pragma unroll
      for (int k = 0; k < K; ++k) {
//! fault decay_input wrong: s[k] = exp2f(dt_t * a[k]) * (s[k] + dx_t * (float)bv.v[k]);
        s[k] = exp2f(dt_t * a[k]) * s[k] + dx_t * (float)bv.v[k];
        o[t] += s[k] * (float)cv.v[k];
      }
    }
    // Lanes whose bit is set keep the upper half of the steps and give the lower half away, and the other way round.
#pragma unroll
    for (int w = LANES / 2; w > 0; w /= 2) {
      bool upper = part & w;
#pragma unroll
      for (int i = 0; i < w; ++i) {
        float give = upper ? o[i] : o[i + w], keep = upper ? o[i + w] : o[i];
//! fault half_exchange wrong: o[i] = give + __shfl_xor_sync(ALL, keep, w);
        o[i] = keep + __shfl_xor_sync(ALL, give, w);
      }
    }
    float out = o[0] + skip * now.x;
//! fault no_gate wrong: if (l + part < L) y[(row + l + part) * D + d] = elem(out / (1.f + __expf(-now.gate)));
    if (l + part < L) y[(row + l + part) * D + d] = elem(out * now.gate / (1.f + __expf(-now.gate)));
    if constexpr (!AHEAD) next = read(l + LANES + part);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) h[first + k] = s[k];
}

extern "C" cudaError_t mamba_scan(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm,
                                  const elem *Cm, const float *Dskip, const float *dt_bias, const float *h0, elem *y,
                                  float *h, int B, int L, int D, int N, void *workspace, size_t workspace_bytes,
                                  cudaStream_t stream) {

  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || B > 65535 || L < 1 || D < 1 || D % 64 != 0) return cudaErrorNotSupported;
  if (D * LANES % THREADS != 0) return cudaErrorNotSupported;
  auto kernel = N == 8 ? scan_kernel<8> : N == 16 ? scan_kernel<16> : N == 32 ? scan_kernel<32> : scan_kernel<64>;
  if (N != 8 && N != 16 && N != 32 && N != 64) return cudaErrorNotSupported;
  dim3 grid(D / CHANNELS, B);
  kernel<<<grid, THREADS, 0, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, L, D);
  return cudaGetLastError();
}

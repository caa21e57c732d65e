// Selective state-space scan. A thread per (sequence, channel) walks the time steps one after the other with the
// channel's N states in registers; inputs are read element by element when they are needed.
//! idea a thread per sequence and channel, sequential in time
//! says state_size: expression must have a constant value
//! says plain_cast: more than one operator "+" matches these operands:
//! says log_name: identifier "logp1f" is undefined
//! dtypes fp16 bf16
//! kernel grid=B*cdiv(D,THREADS) block=THREADS smem=0 regs=(N==8?48:(N==16?64:(N==32?96:168))) read=e*(3*B*L*D+2*B*L*N*cdiv(D,32))+4*(B*D*N+B*D*N+2*B*D) once=e*(3*B*L*D+2*B*L*N)+4*(D*N+2*D+B*D*N) write=e*B*L*D+4*B*D*N inflight=THREADS*3*e+4*N*e ops=B*L*D*(6*N+60) sfu=B*L*D*(N+4) chain=L*(LAT+140+5*N)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 32 64 128 256
constexpr int THREADS = 128;

template <int N>
static __global__ void scan_kernel(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm,
                                   const elem *Cm, const float *Dskip, const float *dt_bias, const float *h0, elem *y,
                                   float *h, int L, int D) {
  int d = blockIdx.x * THREADS + threadIdx.x, b = blockIdx.y;
  if (d >= D) return;
//! fault state_size compile: float a[N], s[L], bias = dt_bias[d], skip = Dskip[d];
  float a[N], s[N], bias = dt_bias[d], skip = Dskip[d];
  for (int n = 0; n < N; ++n) {
    a[n] = A[(size_t)d * N + n];
//! fault zero_start wrong: s[n] = 0.f;
    s[n] = h0[((size_t)b * D + d) * N + n];
  }
  for (int l = 0; l < L; ++l) {
    size_t row = (size_t)b * L + l, at = row * D + d;
//! fault plain_cast compile: float v = dt[at] + bias, x = u[at], gate = z;
    float v = (float)dt[at] + bias, x = (float)u[at], gate = (float)z[at];
//! fault log_name compile: float delta = v > 20.f ? v : logp1f(__expf(v)), o = skip * x;
//! fault no_softplus wrong: float delta = v, o = skip * x;
//! shows no_softplus: nonfinite
//! fault plain_skip wrong: float delta = v > 20.f ? v : log1pf(__expf(v)), o = skip;
    float delta = v > 20.f ? v : log1pf(__expf(v)), o = skip * x;
    for (int n = 0; n < N; ++n) {
//! fault base2 wrong: s[n] = exp2f(delta * a[n]) * s[n] + delta * x * (float)Bm[row * N + n];
      s[n] = __expf(delta * a[n]) * s[n] + delta * x * (float)Bm[row * N + n];
      o += s[n] * (float)Cm[row * N + n];
    }
    y[at] = elem(o * gate / (1.f + __expf(-gate)));
  }
  for (int n = 0; n < N; ++n) h[((size_t)b * D + d) * N + n] = s[n];
}

extern "C" cudaError_t mamba_scan(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm,
                                  const elem *Cm, const float *Dskip, const float *dt_bias, const float *h0, elem *y,
                                  float *h, int B, int L, int D, int N, void *workspace, size_t workspace_bytes,
                                  cudaStream_t stream) {

  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || B > 65535 || L < 1 || D < 1 || D % 64 != 0) return cudaErrorNotSupported;
  dim3 grid((D + THREADS - 1) / THREADS, B);
  switch (N) {
    case 8:
      scan_kernel<8><<<grid, THREADS, 0, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, L, D);
      break;
    case 16:
      scan_kernel<16><<<grid, THREADS, 0, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, L, D);
      break;
    case 32:
      scan_kernel<32><<<grid, THREADS, 0, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, L, D);
      break;
    case 64:
      scan_kernel<64><<<grid, THREADS, 0, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, L, D);
      break;
    default:
      return cudaErrorNotSupported;
  }
  return cudaGetLastError();
}

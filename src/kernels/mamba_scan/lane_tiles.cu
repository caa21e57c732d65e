// Selective state-space scan in one pass. LANES lanes share a channel's states, so that few channels still fill the
// GPU. Per tile of time steps all threads first turn the inputs into fp32 in shared memory (delta, delta * u, gate),
// once per element; the steps themselves then cost a product, a bare ex2 and three more operations per state, while
// the next tile's inputs are on their way to registers.
//! idea states over lanes, inputs prepared in shared tiles
//! says vector_args: no instance of overloaded function "__ldg" matches the argument list
//! says reinterpret: argument list for class template "Lanes" is missing
//! says half_store: identifier "steps_left" is undefined
//! dtypes fp16 bf16
//! kernel grid=B*(D*LANES/THREADS) block=THREADS smem=176*THREADS*PER+64*LANES*PER*N regs=48+16*PER+2*N/LANES+2*LANES read=e*(3*B*L*D+2*B*L*N*(D*LANES/THREADS))+4*(2*B*D*N+2*B*D) once=e*(3*B*L*D+2*B*L*N)+4*(D*N+2*D+B*D*N) write=e*B*L*D+4*B*D*N inflight=THREADS*PER*48 ops=B*L*D*(5*N+60+LANES*7) sfu=B*L*D*(N+4) chain=LAT+cdiv(L,8*LANES*PER)*(max(LAT,8*LANES*PER*(12+8*N/LANES))+120+PER*500)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 64 128 256
constexpr int THREADS = 128;
//! param 2 4 8 16
constexpr int LANES = 4;  // per channel
//! param 1 2 4
constexpr int PER = 1;  // vectors of 8 channels that a thread prepares per tile
//! legal LANES<=N
//! legal THREADS>=8*LANES
//! legal D%(THREADS/LANES)==0
constexpr int CHANNELS = THREADS / LANES, ACROSS = CHANNELS / 8;  // vectors per time step
constexpr int TILE = 8 * LANES * PER;                             // time steps
constexpr int PITCH = 20;  // floats per vector of pairs: 16, and 4 that keep stores on different banks
constexpr float LOG2E = 1.4426950408889634f;

static __device__ __forceinline__ float ex2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

// log(1 + e^v): by its series where 1 + e^v would lose e^v's last bits.
static __device__ __forceinline__ float softplus(float v) {
  float e = ex2(v * LOG2E);
  float small = e * (1.f - e * (0.5f - e * (0.33333333f - 0.25f * e)));
//! fault log_base wrong: float large = __log2f(1.f + e);
  float large = __logf(1.f + e);
  return v > 20.f ? v : e < 0.0625f ? small : large;
}

template <int K>
struct alignas(K < 4 ? K * 4 : 16) Lanes {
  float v[K];
};

template <int N>
static __global__ void __launch_bounds__(THREADS)
    scan_kernel(const elem *__restrict__ u, const elem *__restrict__ dt, const elem *__restrict__ z,
                const float *__restrict__ A, const elem *__restrict__ Bm, const elem *__restrict__ Cm,
                const float *__restrict__ Dskip, const float *__restrict__ dt_bias, const float *__restrict__ h0,
                elem *__restrict__ y, float *__restrict__ h, int L, int D) {
  constexpr int K = N / LANES;
  constexpr int STATES = TILE * N / 8, TURNS = (2 * STATES + THREADS - 1) / THREADS;  // vectors of B, and of both
  extern __shared__ __align__(16) float smem[];
  float *step = smem;                                // [TILE][ACROSS][PITCH]: delta and delta * u
  float *gate = step + TILE * ACROSS * PITCH;        // the same: silu(z) and silu(z) * Dskip * u
  float *bc = gate + TILE * ACROSS * PITCH;          // [2][TILE][N]
  elem *out = (elem *)(bc + 2 * TILE * N);           // [TILE][CHANNELS]
  int b = blockIdx.y, d0 = blockIdx.x * CHANNELS, part = threadIdx.x % LANES, c = threadIdx.x / LANES;
  size_t row = (size_t)b * L, first = ((size_t)b * D + d0 + c) * N + part * K;
  float a[K], s[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
//! fault no_log2e wrong: a[k] = A[(size_t)(d0 + c) * N + part * K + k];
    a[k] = A[(size_t)(d0 + c) * N + part * K + k] * LOG2E;
//! fault zero_start wrong: s[k] = 0.f;
    s[k] = h0[first + k];
  }
  uint4 ru[PER], rd[PER], rz[PER], rs[TURNS];
  auto read = [&](int l) {
#pragma unroll
    for (int p = 0; p < PER; ++p) {
      int q = threadIdx.x + p * THREADS, t = q / ACROSS;
      if (l + t < L) {
        size_t at = ((row + l + t) * D + d0) / 8 + q % ACROSS;
        ru[p] = ((const uint4 *)u)[at];
        rd[p] = ((const uint4 *)dt)[at];
        rz[p] = ((const uint4 *)z)[at];
      }
    }
#pragma unroll
    for (int p = 0; p < TURNS; ++p) {
      int q = threadIdx.x + p * THREADS, i = q % STATES, t = i / (N / 8);
      rs[p] = make_uint4(0, 0, 0, 0);
//! fault vector_args compile: if (q < 2 * STATES && l + t < L) rs[p] = __ldg((const uint4 *)(q < STATES ? Bm : Cm), (row + l) * N / 8 + i);
      if (q < 2 * STATES && l + t < L) rs[p] = ((const uint4 *)(q < STATES ? Bm : Cm))[(row + l) * N / 8 + i];
    }
  };
  read(0);
  for (int l = 0; l < L; l += TILE) {
#pragma unroll
    for (int p = 0; p < PER; ++p) {
      int q = threadIdx.x + p * THREADS, d = d0 + q % ACROSS * 8;
      bool there = l + q / ACROSS < L;  // past the end a step of length 0 keeps the states
      const elem *eu = (const elem *)&ru[p], *ed = (const elem *)&rd[p], *ez = (const elem *)&rz[p];
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        float2 st[2], ga[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float x = there ? (float)eu[j + i] : 0.f, g = there ? (float)ez[j + i] : 0.f;
//! fault no_bias wrong: float delta = there ? softplus((float)ed[j + i]) : 0.f;
          float delta = there ? softplus((float)ed[j + i] + __ldg(dt_bias + d + j + i)) : 0.f;
          st[i] = make_float2(delta, delta * x);
          g = __fdividef(g, 1.f + ex2(-g * LOG2E));
//! fault plain_skip wrong: ga[i] = make_float2(g, g * __ldg(Dskip + d + j + i));
          ga[i] = make_float2(g, g * x * __ldg(Dskip + d + j + i));
        }
        *(float4 *)(step + q * PITCH + 2 * j) = make_float4(st[0].x, st[0].y, st[1].x, st[1].y);
        *(float4 *)(gate + q * PITCH + 2 * j) = make_float4(ga[0].x, ga[0].y, ga[1].x, ga[1].y);
      }
    }
#pragma unroll
    for (int p = 0; p < TURNS; ++p) {
      int q = threadIdx.x + p * THREADS;
      const elem *e = (const elem *)&rs[p];
      if (q < 2 * STATES) {
        float4 *to = (float4 *)(bc + q * 8);
        to[0] = make_float4((float)e[0], (float)e[1], (float)e[2], (float)e[3]);
        to[1] = make_float4((float)e[4], (float)e[5], (float)e[6], (float)e[7]);
      }
    }
    __syncthreads();
    if (l + TILE < L) read(l + TILE);

    int steps = min(TILE, (L - l + LANES - 1) / LANES * LANES);
    for (int t0 = 0; t0 < steps; t0 += LANES) {
      float o[LANES];
#pragma unroll
      for (int t = 0; t < LANES; ++t) {
        float2 st = *(const float2 *)(step + ((t0 + t) * ACROSS + c / 8) * PITCH + c % 8 * 2);
//! fault reinterpret compile: const auto *bv = (const Lanes *)(bc + (t0 + t) * N + part * K);
        const auto *bv = (const Lanes<K> *)(bc + (t0 + t) * N + part * K);
//! fault c_from_b wrong: const auto *cv = (const Lanes<K> *)(bc + (t0 + t) * N + part * K);
        const auto *cv = (const Lanes<K> *)(bc + (TILE + t0 + t) * N + part * K);
        Lanes<K> vb = *bv, vc = *cv;
        o[t] = 0.f;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          s[k] = fmaf(ex2(st.x * a[k]), s[k], st.y * vb.v[k]);
          o[t] = fmaf(s[k], vc.v[k], o[t]);
        }
      }
      // Lanes whose bit is set keep the upper half of the steps and give the lower half away, and the other way round.
#pragma unroll
      for (int w = LANES / 2; w > 0; w /= 2) {
        bool upper = part & w;
#pragma unroll
        for (int i = 0; i < w; ++i) {
          float give = upper ? o[i] : o[i + w], keep = upper ? o[i + w] : o[i];
          o[i] = keep + __shfl_xor_sync(0xffffffffu, give, w);
        }
      }
      float2 ga = *(const float2 *)(gate + ((t0 + part) * ACROSS + c / 8) * PITCH + c % 8 * 2);
//! fault skip_only wrong: out[(t0 + part) * CHANNELS + c] = elem(fmaf(o[0], ga.x, ga.x));
      out[(t0 + part) * CHANNELS + c] = elem(fmaf(o[0], ga.x, ga.y));
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PER; ++p) {
      int q = threadIdx.x + p * THREADS, t = q / ACROSS;
//! fault half_store compile: if (t < steps_left) ((uint4 *)y)[((row + l + t) * D + d0) / 8 + q % ACROSS] = ((const uint4 *)out)[q];
      if (l + t < L) ((uint4 *)y)[((row + l + t) * D + d0) / 8 + q % ACROSS] = ((const uint4 *)out)[q];
    }
  }
#pragma unroll
  for (int k = 0; k < K; ++k) h[first + k] = s[k];
}

template <int N>
static cudaError_t launch(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm, const elem *Cm,
                          const float *Dskip, const float *dt_bias, const float *h0, elem *y, float *h, int B, int L,
                          int D, cudaStream_t stream) {
  if constexpr (LANES > N) {
    return cudaErrorNotSupported;
  } else {
    size_t smem = 2 * TILE * ACROSS * PITCH * sizeof(float) + 2 * TILE * N * sizeof(float) + TILE * CHANNELS * 2;
    cudaError_t e = cudaFuncSetAttribute(scan_kernel<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    if (e != cudaSuccess) return e;
    scan_kernel<N><<<dim3(D / CHANNELS, B), THREADS, smem, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, L,
                                                                     D);
    return cudaGetLastError();
  }
}

extern "C" cudaError_t mamba_scan(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm,
                                  const elem *Cm, const float *Dskip, const float *dt_bias, const float *h0, elem *y,
                                  float *h, int B, int L, int D, int N, void *workspace, size_t workspace_bytes,
                                  cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (B < 1 || B > 65535 || L < 1 || D < 1 || D % 64 != 0) return cudaErrorNotSupported;
  if (THREADS < 8 * LANES || D % (THREADS / LANES) != 0) return cudaErrorNotSupported;
  auto go = N == 8 ? launch<8> : N == 16 ? launch<16> : N == 32 ? launch<32> : launch<64>;
  if (N != 8 && N != 16 && N != 32 && N != 64) return cudaErrorNotSupported;
  return go(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, B, L, D, stream);
}

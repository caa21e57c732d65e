// Selective state-space scan. Time is cut into chunks of CHUNK steps that run side by side: a first kernel scans each
// chunk from zero states, a second one walks the few chunk ends of each state in order, and a third scans each chunk
// again from the states it really starts with. Twice the arithmetic, but L / CHUNK times the parallelism.
//! idea time cut into chunks, scanned twice with the carries in between
//! says softplus_args: too many arguments in function call
//! says deduced: no instance of function template "load_states" matches the argument list
//! says const_local: const variable "local" requires an initializer
//! dtypes fp16 bf16
//! kernel grid=cdiv(L,CHUNK)*B*(D/THREADS) block=THREADS smem=0 regs=(N==8?43:(N==16?68:(N==32?96:168))) read=e*(2*B*L*D+B*L*N*D/32)+4*D*N*B*cdiv(L,CHUNK) once=e*(2*B*L*D+B*L*N)+4*(D*N+D) write=4*B*cdiv(L,CHUNK)*D*(N+1) inflight=THREADS*(2*e*STEPS) ops=B*L*D*(4*N+40) sfu=B*L*D*(N+2) chain=LAT+cdiv(CHUNK,STEPS)*(LAT/2+STEPS*(60+5*N))
//! kernel grid=B*D*N/256 block=256 smem=0 regs=39 read=4*B*cdiv(L,CHUNK)*D*(N+1)+4*(D*N+B*D*N) write=4*B*cdiv(L,CHUNK)*D*N+4*B*D*N inflight=256*4 ops=B*D*N*cdiv(L,CHUNK)*14 sfu=B*D*N*cdiv(L,CHUNK) chain=cdiv(L,CHUNK)*(LATL2+60)
//! kernel grid=cdiv(L,CHUNK)*B*(D/THREADS) block=THREADS smem=0 regs=(N==8?48:(N==16?69:(N==32?127:170))) read=e*(3*B*L*D+2*B*L*N*D/32)+4*B*cdiv(L,CHUNK)*D*2*N once=e*(3*B*L*D+2*B*L*N)+4*B*cdiv(L,CHUNK)*D*N write=e*B*L*D inflight=THREADS*(3*e*STEPS) ops=B*L*D*(6*N+60) sfu=B*L*D*(N+4) chain=LAT+cdiv(CHUNK,STEPS)*(LAT/2+STEPS*(90+6*N))
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 32 64 128
constexpr int THREADS = 64;
//! param 16 32 64 128 256
constexpr int CHUNK = 64;  // time steps that one thread walks
//! param 1 2 4 8
constexpr int STEPS = 4;  // unrolled, their loads issued together
//! legal D%THREADS==0
constexpr float LOG2E = 1.4426950408889634f;

static __device__ __forceinline__ float softplus(float v) { return v > 20.f ? v : log1pf(__expf(v)); }

template <int N>
static __device__ __forceinline__ void load_states(float (&to)[N], const elem *from) {
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    uint4 p = ((const uint4 *)from)[i];
    const elem *e = (const elem *)&p;
#pragma unroll
    for (int j = 0; j < 8; ++j) to[i * 8 + j] = (float)e[j];
  }
}

// Ends of the chunks when each starts from zero, [B, chunks, N, D], and the sum of delta over each, [B, chunks, D].
template <int N>
static __global__ void __launch_bounds__(THREADS)
    local_kernel(const elem *__restrict__ u, const elem *__restrict__ dt, const float *__restrict__ A,
                 const elem *__restrict__ Bm, const float *__restrict__ dt_bias, float *__restrict__ ends,
                 float *__restrict__ sums, int L, int D) {
  int d = blockIdx.x * THREADS + threadIdx.x, b = blockIdx.z, begin = blockIdx.y * CHUNK, end = min(L, begin + CHUNK);
  float a[N], s[N], bias = dt_bias[d], sum = 0.f;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    a[n] = A[(size_t)d * N + n] * LOG2E;
    s[n] = 0.f;
  }
#pragma unroll STEPS
  for (int l = begin; l < end; ++l) {
    size_t row = (size_t)b * L + l;
//! fault softplus_args compile: float delta = softplus((float)dt[row * D + d], bias), dx = delta * (float)u[row * D + d], bv[N];
    float delta = softplus((float)dt[row * D + d] + bias), dx = delta * (float)u[row * D + d], bv[N];
//! fault deduced compile: load_states(bv, Bm + row * N, N);
    load_states<N>(bv, Bm + row * N);
//! fault last_delta wrong when L>=4*CHUNK: sum = delta;
    sum += delta;
#pragma unroll
    for (int n = 0; n < N; ++n) s[n] = exp2f(delta * a[n]) * s[n] + dx * bv[n];
  }
  size_t chunk = (size_t)b * gridDim.y + blockIdx.y;
  sums[chunk * D + d] = sum;
#pragma unroll
  for (int n = 0; n < N; ++n) ends[(chunk * N + n) * D + d] = s[n];
}

// A thread per state replaces the chunk ends by the states in which the chunks start.
static __global__ void carry_kernel(const float *__restrict__ A, const float *__restrict__ h0, float *ends,
                                    const float *__restrict__ sums, float *__restrict__ h, int D, int N, int chunks) {
  int d = blockIdx.x * 64 + threadIdx.x % 64, n = blockIdx.y * 4 + threadIdx.x / 64, b = blockIdx.z;
  size_t i = ((size_t)b * D + d) * N + n;
//! fault zero_start wrong: float a = A[(size_t)d * N + n] * LOG2E, s = 0.f;
  float a = A[(size_t)d * N + n] * LOG2E, s = h0[i];
  for (int c = 0; c < chunks; ++c) {
    size_t chunk = (size_t)b * chunks + c, at = (chunk * N + n) * D + d;
//! fault const_local compile: const float local; local = ends[at];
    float local = ends[at];
    ends[at] = s;
//! fault carry_decay wrong: s = exp2f(a * sums[chunk * D + d]) + local;
    s = exp2f(a * sums[chunk * D + d]) * s + local;
  }
  h[i] = s;
}

template <int N>
static __global__ void __launch_bounds__(THREADS)
    output_kernel(const elem *__restrict__ u, const elem *__restrict__ dt, const elem *__restrict__ z,
                  const float *__restrict__ A, const elem *__restrict__ Bm, const elem *__restrict__ Cm,
                  const float *__restrict__ Dskip, const float *__restrict__ dt_bias, const float *__restrict__ starts,
                  elem *__restrict__ y, int L, int D) {
  int d = blockIdx.x * THREADS + threadIdx.x, b = blockIdx.z, begin = blockIdx.y * CHUNK, end = min(L, begin + CHUNK);
  size_t chunk = (size_t)b * gridDim.y + blockIdx.y;
  float a[N], s[N], bias = dt_bias[d], skip = Dskip[d];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    a[n] = A[(size_t)d * N + n] * LOG2E;
    s[n] = starts[(chunk * N + n) * D + d];
  }
#pragma unroll STEPS
  for (int l = begin; l < end; ++l) {
    size_t row = (size_t)b * L + l, at = row * D + d;
    float delta = softplus((float)dt[at] + bias), x = (float)u[at], gate = (float)z[at], dx = delta * x, o = skip * x;
    float bv[N], cv[N];
    load_states<N>(bv, Bm + row * N);
//! fault c_from_b wrong: load_states<N>(cv, Bm + row * N);
    load_states<N>(cv, Cm + row * N);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      s[n] = exp2f(delta * a[n]) * s[n] + dx * bv[n];
      o += s[n] * cv[n];
    }
//! fault gate_sign wrong: y[at] = elem(o * gate / (1.f + __expf(gate)));
    y[at] = elem(o * gate / (1.f + __expf(-gate)));
  }
}

extern "C" size_t mamba_scan_workspace(int B, int L, int D, int N) {
  return (size_t)B * ((L + CHUNK - 1) / CHUNK) * D * (N + 1) * sizeof(float);
}

template <int N>
static void launch(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm, const elem *Cm,
                   const float *Dskip, const float *dt_bias, const float *h0, elem *y, float *h, int B, int L, int D,
                   float *ends, cudaStream_t stream) {
  int chunks = (L + CHUNK - 1) / CHUNK;
  float *sums = ends + (size_t)B * chunks * D * N;
  dim3 grid(D / THREADS, chunks, B);
  local_kernel<N><<<grid, THREADS, 0, stream>>>(u, dt, A, Bm, dt_bias, ends, sums, L, D);
  carry_kernel<<<dim3(D / 64, N / 4, B), 256, 0, stream>>>(A, h0, ends, sums, h, D, N, chunks);
  output_kernel<N><<<grid, THREADS, 0, stream>>>(u, dt, z, A, Bm, Cm, Dskip, dt_bias, ends, y, L, D);
}

extern "C" cudaError_t mamba_scan(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm,
                                  const elem *Cm, const float *Dskip, const float *dt_bias, const float *h0, elem *y,
                                  float *h, int B, int L, int D, int N, void *workspace, size_t workspace_bytes,
                                  cudaStream_t stream) {

  if (B < 1 || B > 65535 || L < 1 || L > 65535 * CHUNK || D < 1 || D % 64 != 0) return cudaErrorNotSupported;
  if (D % THREADS != 0) return cudaErrorNotSupported;
  auto go = N == 8 ? launch<8> : N == 16 ? launch<16> : N == 32 ? launch<32> : launch<64>;
  if (N != 8 && N != 16 && N != 32 && N != 64) return cudaErrorNotSupported;
  if (workspace_bytes < mamba_scan_workspace(B, L, D, N)) return cudaErrorInvalidValue;
  go(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, y, h, B, L, D, (float *)workspace, stream);
  return cudaGetLastError();
}

// RMS norm with a block per row and the row held in registers: every thread loads a fixed number of 16-byte vectors,
// all of them before the first use, so the row crosses the memory bus once and many loads are in flight.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a block per row, the row held in registers after one pass of 16-byte loads
//! says narrow_one: too few arguments in function call
//! says const_output: a value of type "const uint4 *" cannot be used to initialize an entity of type "uint4 *"
//! says barrier_name: identifier "__syncthread" is undefined
//! legal THREADS*vecs*8>=D
//! kernel grid=T block=THREADS smem=THREADS/32*4 regs=min(THREADS>=1024?64:255,max(30,EARLY_WEIGHT?18+vecs*8:24+vecs*4)+bf16*8) read=2*e*T*D once=e*(T+1)*D write=e*T*D inflight=min(THREADS*vecs*8,D)*e*(1+EARLY_WEIGHT) ops=T*D*6+T*THREADS*(70+vecs*8) sfu=T*THREADS chain=LAT+vecs*60+5*25+60+THREADS/8+20+(EARLY_WEIGHT?0:LATL2)
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512 1024
constexpr int THREADS = 256;
//! param 1 2 4 8
constexpr int vecs = 2;  // 16-byte vectors of the row that a thread keeps
//! param 0 1
constexpr int EARLY_WEIGHT = 1;  // 1: weights are requested before the reduction, at the price of registers
//! param 0 1
constexpr int stream_hint = 1;  // 1: x and y, touched once, are marked evict-first

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __device__ __forceinline__ float squares(uint4 v) {
  const elem2* h = (const elem2*)&v;
  float s = 0.f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 f = widen(h[i]);
    //! fault odd_lanes_twice wrong: s = fmaf(f.x, f.x, fmaf(f.x, f.y, s));
    s = fmaf(f.x, f.x, fmaf(f.y, f.y, s));
  }
  return s;
}

static __device__ __forceinline__ uint4 scaled(uint4 v, uint4 w, float inv) {
  const elem2 *a = (const elem2*)&v, *b = (const elem2*)&w;
  uint4 out;
  elem2* o = (elem2*)&out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 f = widen(a[i]), g = widen(b[i]);
    //! fault weight_left_out wrong: o[i] = narrow(f.x * inv, f.y * inv);
    //! fault narrow_one compile: o[i] = narrow(f.x * inv * g.x);
    o[i] = narrow(f.x * inv * g.x, f.y * inv * g.y);
  }
  return out;
}

static __global__ void __launch_bounds__(THREADS)
rmsnorm_kernel(const elem* x, const elem* w, elem* y, int D, float eps) {
  __shared__ float part[THREADS / 32];
  const int n = D / 8;  // vectors in a row
  const uint4* xr = (const uint4*)(x + (size_t)blockIdx.x * D);
  const uint4* wr = (const uint4*)w;
  //! fault const_output compile: uint4* yr = (const uint4*)(y + (size_t)blockIdx.x * D);
  uint4* yr = (uint4*)(y + (size_t)blockIdx.x * D);
  const uint4 zero = make_uint4(0, 0, 0, 0);
  uint4 v[vecs], g[vecs];
#pragma unroll
  for (int j = 0; j < vecs; ++j) {
    int i = threadIdx.x + j * THREADS;
    v[j] = zero;
    if (i < n) v[j] = stream_hint ? __ldcs(xr + i) : __ldg(xr + i);
  }
  if constexpr (EARLY_WEIGHT) {
#pragma unroll
    for (int j = 0; j < vecs; ++j) {
      int i = threadIdx.x + j * THREADS;
      g[j] = i < n ? __ldg(wr + i) : zero;
    }
  }
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < vecs; ++j) sum += squares(v[j]);
#pragma unroll
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  //! fault barrier_name compile: __syncthread();
  __syncthreads();
  float total = 0.f;
#pragma unroll
  //! fault own_warp_only wrong when D>256: for (int i = 0; i < 1; ++i) total += part[threadIdx.x / 32];
  for (int i = 0; i < THREADS / 32; ++i) total += part[i];
  //! fault eps_before_division wrong: float inv = rsqrtf((total + eps) / D);
  float inv = rsqrtf(total / D + eps);
#pragma unroll
  for (int j = 0; j < vecs; ++j) {
    int i = threadIdx.x + j * THREADS;
    //! fault last_step_dropped wrong when D%(THREADS*8)!=0: if (i - (int)threadIdx.x + THREADS > n) break;
    //! shows last_step_dropped: unwritten
    if (i >= n) break;
    uint4 r = scaled(v[j], EARLY_WEIGHT ? g[j] : __ldg(wr + i), inv);
    if constexpr (stream_hint) __stcs(yr + i, r);
    else yr[i] = r;
  }
}

extern "C" cudaError_t rmsnorm(const elem* x, const elem* w, elem* y, int T, int D, float eps, void* workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
  if (D % 8 != 0 || D > THREADS * vecs * 8) return cudaErrorNotSupported;
  rmsnorm_kernel<<<T, THREADS, 0, stream>>>(x, w, y, D, eps);
  return cudaGetLastError();
}

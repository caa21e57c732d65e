// RMS norm without block barriers: a group of lanes inside a warp owns a row, keeps it in registers as 16-byte vectors
// and reduces by shuffles. A group loads several rows before it reduces the first, so short rows keep the bus busy.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea a group of lanes per row, reduced by shuffles alone, several rows in flight
//! says lane_name: identifier "land" is undefined
//! says load_arity: no instance of overloaded function "__ldcs" matches the argument list
//! says shuffle_mask_missing: no instance of overloaded function "__shfl_xor_sync" matches the argument list
//! says rows_guard_gone: expected an expression
//! legal LANES*vecs*8>=D
//! legal ROWS*vecs<=32
//! kernel grid=cdiv(T,WARPS*32/LANES*ROWS) block=WARPS*32 regs=min(255,26+ROWS*vecs*(bf16?26:13)/3) read=2*e*T*D once=e*(T+1)*D write=e*T*D inflight=WARPS*32/LANES*ROWS*e*min(D,LANES*vecs*8) ops=T*D*6+T*LANES*(40+vecs*8) sfu=T*LANES chain=LAT+ROWS*(vecs*55+5*25+40)+LATL2
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 8 16 32
constexpr int LANES = 32;  // lanes that share a row
//! param 1 2 4 8 16
constexpr int vecs = 16;  // 16-byte vectors of a row per lane
//! param 1 2 4 8
constexpr int WARPS = 4;  // warps per block
//! param 1 2 4
constexpr int ROWS = 1;  // rows that a group holds at a time
constexpr int groups = WARPS * 32 / LANES;

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __global__ void __launch_bounds__(WARPS * 32)
rmsnorm_kernel(const elem* x, const elem* w, elem* y, int T, int D, float eps) {
  const int n = D / 8;  // vectors in a row
  const int lane = threadIdx.x % LANES;
  const int first = blockIdx.x * (groups * ROWS) + threadIdx.x / LANES;  // then every groups-th row
  const uint4* wr = (const uint4*)w;
  uint4 v[ROWS][vecs];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int t = first + r * groups;
    const uint4* xr = (const uint4*)(x + (size_t)t * D);
#pragma unroll
    for (int j = 0; j < vecs; ++j) {
      //! fault lane_name compile: const int i = land + j * LANES;
      const int i = lane + j * LANES;
      v[r][j] = make_uint4(0, 0, 0, 0);
      // rows past the end read as zero: their lanes still take part in the shuffles
      //! fault load_arity compile: if (t < T && i < n) v[r][j] = __ldcs(xr, i);
      if (t < T && i < n) v[r][j] = __ldcs(xr + i);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int t = first + r * groups;
    float sum = 0.f;
#pragma unroll
    for (int j = 0; j < vecs; ++j) {
      const elem2* h = (const elem2*)&v[r][j];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float2 f = widen(h[k]);
        //! fault sum_restarted wrong: sum = fmaf(f.x, f.x, f.y * f.y);
        sum = fmaf(f.x, f.x, fmaf(f.y, f.y, sum));
      }
    }
#pragma unroll
    //! fault half_group wrong when D>LANES*4: for (int o = LANES / 4; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    //! fault shuffle_mask_missing compile: for (int o = LANES / 2; o > 0; o /= 2) sum += __shfl_xor_sync(sum, o);
    for (int o = LANES / 2; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    //! fault mean_of_capacity wrong when D*16<LANES*vecs*8*15: const float inv = rsqrtf(sum / (LANES * vecs * 8) + eps);
    //! fault eps_outside wrong: const float inv = rsqrtf(sum / D) + eps;
    //! shows eps_outside: nonfinite
    const float inv = rsqrtf(sum / D + eps);
    //! fault rows_guard_gone compile: if (t >= T)) continue;
    if (t >= T) continue;
    uint4* yr = (uint4*)(y + (size_t)t * D);
#pragma unroll
    for (int j = 0; j < vecs; ++j) {
      const int i = lane + j * LANES;
      if (i >= n) break;
      const uint4 wv = __ldg(wr + i);
      const elem2 *a = (const elem2*)&v[r][j], *b = (const elem2*)&wv;
      uint4 out;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float2 f = widen(a[k]), g = widen(b[k]);
        ((elem2*)&out)[k] = narrow(f.x * inv * g.x, f.y * inv * g.y);
      }
      //! fault input_copied_out wrong: __stcs(yr + i, v[r][j]);
      __stcs(yr + i, out);
    }
  }
}

extern "C" cudaError_t rmsnorm(const elem* x, const elem* w, elem* y, int T, int D, float eps, void* workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
  if (D % 8 != 0 || D > LANES * vecs * 8 || ROWS * vecs > 32) return cudaErrorNotSupported;
  //! fault grid_rounded_down wrong when T%(WARPS*32/LANES*ROWS)!=0&&T>WARPS*32/LANES*ROWS: const int grid = T / (groups * ROWS);
  //! shows grid_rounded_down: unwritten
  const int grid = (T + groups * ROWS - 1) / (groups * ROWS);
  rmsnorm_kernel<<<grid, WARPS * 32, 0, stream>>>(x, w, y, T, D, eps);
  return cudaGetLastError();
}

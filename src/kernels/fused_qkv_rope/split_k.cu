// For few tokens: E is split over blocks so that every SM streams weights. Both operands go straight from global
// memory into mma fragments by 16-byte loads, which the free order of k allows. The fp32 partial sums meet in a second
// kernel that also rotates.
//! idea E split over blocks, direct fragment loads, rotation in the combining kernel
//! dtypes fp16 bf16
//! legal T <= 128
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 2 4 8 16
constexpr int kSplits = 4;
//! param 16 32 64
constexpr int BM = 16;    // tokens per block
//! param 8 16 32
constexpr int BN = 16;    // columns per warp
//! param 2 4 8
constexpr int kWarps = 4;    // warps per block, side by side
//! param 1 2 4
constexpr int UN = 2;   // steps of 32 k loaded before the first is used
constexpr int kTilesM = BM / 16, kTilesN = BN / 8;

static __device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                           uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col."
               //! dtype bf16: "f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               "f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Eight values of a row at k, zeros past its end.
static __device__ __forceinline__ uint4 load8(const elem* row, int k, int end) {
  return k < end ? __ldg(reinterpret_cast<const uint4*>(row + k)) : make_uint4(0, 0, 0, 0);
}

//! kernel grid=cdiv((H+2*HKV)*D,kWarps*BN)*cdiv(T,BM)*kSplits block=32*kWarps regs=38+BM*BN/32+UN*(BM+BN)/4 read=2*E*(H+2*HKV)*D*(BN*cdiv(T,BM)+T)/BN once=2*E*(T+(H+2*HKV)*D) write=4*kSplits*T*(H+2*HKV)*D inflight=kWarps*UN*64*(BN+BM) ops=cdiv(T,BM)*(H+2*HKV)*D*E*(BN+BM+BM*BN/8)/(2*BN) tc16=2*cdiv(T,BM)*BM*(H+2*HKV)*D*E eff=40 chain=cdiv(E,32*kSplits*UN)*(LAT+UN*(20+BM*BN/7))
static __global__ __launch_bounds__(kWarps * 32) void partial_kernel(const elem* __restrict__ x,
                                                                     const elem* __restrict__ w,
                                                                     float* __restrict__ part, int T, int N, int E) {
  int lane = threadIdx.x % 32, n0 = (blockIdx.x * kWarps + threadIdx.x / 32) * BN, t0 = blockIdx.y * BM;
  int steps = (E + 31) / 32, per = (steps + kSplits - 1) / kSplits;
  int begin = blockIdx.z * per, end = min(steps, begin + per);
  // Lane l holds k = 8 * (l % 4) .. + 7 of a step for its rows, in x and w alike: the two mma of a step then multiply
  // values of equal k, though not in the order of the instruction's definition.
  const elem *xr[kTilesM][2], *wr[kTilesN];
#pragma unroll
  for (int i = 0; i < kTilesM; ++i)
    for (int h = 0; h < 2; ++h) xr[i][h] = x + (size_t)min(t0 + i * 16 + h * 8 + lane / 4, T - 1) * E;
#pragma unroll
  //! fault row_of_lane wrong: for (int j = 0; j < kTilesN; ++j) wr[j] = w + (size_t)min(n0 + j * 8 + lane % 8, N - 1) * E;
  for (int j = 0; j < kTilesN; ++j) wr[j] = w + (size_t)min(n0 + j * 8 + lane / 4, N - 1) * E;
  float acc[kTilesM][kTilesN][4] = {};
  for (int s = begin; s < end; s += UN) {
    uint4 a[UN][kTilesM][2], b[UN][kTilesN];
#pragma unroll
    for (int u = 0; u < UN; ++u) {
      int k = (s + u) * 32 + lane % 4 * 8, stop = s + u < end ? E : 0;
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) b[u][j] = load8(wr[j], k, stop);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        //! fault load_args compile: for (int h = 0; h < 2; ++h) a[u][i][h] = load8(xr[i][h], k);
        //! says load_args: too few arguments in function call
        for (int h = 0; h < 2; ++h) a[u][i][h] = load8(xr[i][h], k, stop);
    }
#pragma unroll
    for (int u = 0; u < UN; ++u)
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
          uint4 lo = a[u][i][0], hi = a[u][i][1], c = b[u][j];
          mma(acc[i][j], lo.x, hi.x, lo.y, hi.y, c.x, c.y);
          //! fault second_half wrong: mma(acc[i][j], lo.z, hi.z, lo.w, hi.w, c.x, c.y);
          //! fault vector_member compile: mma(acc[i][j], lo.z, hi.z, lo.w, hi.w, c.z, c.v);
          //! says vector_member: class "uint4" has no member "v"
          mma(acc[i][j], lo.z, hi.z, lo.w, hi.w, c.z, c.w);
        }
  }
#pragma unroll
  for (int i = 0; i < kTilesM; ++i)
#pragma unroll
    for (int j = 0; j < kTilesN; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int t = t0 + i * 16 + h * 8 + lane / 4, n = n0 + j * 8 + lane % 4 * 2;
        if (t < T && n < N)
          *reinterpret_cast<float2*>(part + ((size_t)blockIdx.z * T + t) * N + n) =
              make_float2(acc[i][j][h * 2], acc[i][j][h * 2 + 1]);
      }
}

//! kernel grid=cdiv(T*(H+2*HKV)*(D/2),256) block=256 regs=32 read=4*kSplits*T*(H+2*HKV)*D+4*D*T*(H+HKV) once=4*kSplits*T*(H+2*HKV)*D+4*D*T write=2*T*(H+2*HKV)*D inflight=256*8*min(kSplits,4) ops=T*(H+2*HKV)*(D/2)*(40+4*kSplits) chain=cdiv(kSplits,4)*LATL2+LAT+LATL2+40
static __global__ void rope_kernel(const float* __restrict__ part, const int* __restrict__ pos,
                                   const float* __restrict__ table, elem* __restrict__ q, elem* __restrict__ k,
                                   elem* __restrict__ v, int T, int H, int HKV, int D) {
  int half = D / 2, heads = H + 2 * HKV, N = heads * D;
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= T * heads * half) return;
  int i = id % half, head = id / half % heads, t = id / half / heads;
  const float* from = part + (size_t)t * N + head * D + i;
  float a = 0.f, b = 0.f;
#pragma unroll 4
  //! fault splits_part wrong: for (int s = 1; s < kSplits; ++s) {
  //! fault split_stride wrong: for (int s = 0; s < kSplits; s += 2) {
  for (int s = 0; s < kSplits; ++s) {
    a += from[(size_t)s * T * N];
    b += from[(size_t)s * T * N + half];
  }
  if (head < H + HKV) {
    //! fault position wrong: const float* row = table + (size_t)t * D;
    const float* row = table + (size_t)pos[t] * D;
    //! fault missing_name compile: float c = row[i], s = row[half + i]; a = a * c - b * s;
    //! says missing_name+2: identifier "r" is undefined
    float c = row[i], s = row[half + i], r = a * c - b * s;
    b = b * c + a * s;
    a = r;
  }
  //! fault head_stride wrong when H >= 2 && T >= 2: elem* out = head < H ? q + ((size_t)head * T + t) * D : nullptr;
  elem* out = head < H ? q + ((size_t)t * H + head) * D : nullptr;
  if (head >= H) out = (head < H + HKV ? k : v) + ((size_t)t * HKV + (head - H) % HKV) * D;
  out[i] = (elem)a;
  out[half + i] = (elem)b;
}

extern "C" size_t fused_qkv_rope_workspace(int T, int H, int HKV, int D, int E) {
  (void)E;
  return (size_t)kSplits * T * (H + 2 * HKV) * D * sizeof(float);
}

extern "C" cudaError_t fused_qkv_rope(const elem* x, const elem* w, const int* pos, const float* table, elem* q,
                                      elem* k, elem* v, int T, int H, int HKV, int D, int E, void* workspace,
                                      size_t workspace_bytes, cudaStream_t stream) {
  if (T < 1 || T > 128 || D % 16 || E % 8) return cudaErrorNotSupported;
  if (workspace_bytes < fused_qkv_rope_workspace(T, H, HKV, D, E)) return cudaErrorInvalidValue;
  float* part = static_cast<float*>(workspace);
  int N = (H + 2 * HKV) * D, cols = kWarps * BN;
  dim3 grid((N + cols - 1) / cols, (T + BM - 1) / BM, kSplits);
  partial_kernel<<<grid, kWarps * 32, 0, stream>>>(x, w, part, T, N, E);
  rope_kernel<<<(T * N / 2 + 255) / 256, 256, 0, stream>>>(part, pos, table, q, k, v, T, H, HKV, D);
  return cudaGetLastError();
}

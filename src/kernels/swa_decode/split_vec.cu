// Windowed attention for one token on the CUDA cores: the newest W keys are cut into kSplits slices. A block serves up
// to kHeads query heads of one KV head over one slice; D / 8 lanes share a key through 16-byte loads, kUnroll keys are
// requested before the first is used. The slices fill the SMs when B * HKV is small; a second kernel joins them.
//! idea window slices with 16-byte loads and a combine kernel
//! says const_row: expression must be a modifiable lvalue
//! says load_type: no suitable conversion function from "uint4" to "unsigned int" exists
//! says pair_store: too few arguments in function call
//! says size_arity: too few arguments in function call
//! says cast_kind: invalid type conversion
//! legal D == 64 || D == 128 || D == 256
//! kernel grid=B*HKV*cdiv(H/HKV,kHeads)*kSplits block=32*kWarps smem=kWarps*(4*D+8*kHeads) regs=18+20*kHeads+5*kUnroll+kHeads*kUnroll*5/4 read=4*min(S,W)*D*B*HKV*cdiv(H/HKV,kHeads) once=2*B*HKV*min(S,W)*D*2 write=4*B*H*kSplits*D inflight=1024*kWarps*kUnroll ops=B*HKV*cdiv(H/HKV,kHeads)*min(S,W)*D*(4+kHeads*4) chain=min(S,W)*D*2/(kSplits*kWarps*kUnroll*512)*(LAT+kHeads*(kUnroll*40+90))+LAT+999
//! kernel grid=B*H block=128 smem=8*kSplits regs=40 read=4*B*H*kSplits*(D+2) write=2*B*H*D inflight=4*min(D,128)*min(8,kSplits) ops=B*H*kSplits*(D*4+512) sfu=B*H*(D+128)*kSplits chain=2*LATL2+kSplits*30+LATL2*cdiv(kSplits,8)
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 2 4 8
constexpr int kWarps = 4;
//! param 1 2 4 8
constexpr int kHeads = 4;  // query heads that share one pass over the keys
//! param 1 2 4 8
constexpr int kUnroll = 4;  // keys per lane in flight
//! param 2 4 8 16 32 64
constexpr int kSplits = 16;
constexpr int kVec = 16 / sizeof(elem);  // elements per load
constexpr float kNoKey = -1e30f;  // finite, so that the difference of two empty maxima is 0

static __device__ __forceinline__ void widen(const uint4 &raw, float (&x)[kVec]) {
  const elem *e = reinterpret_cast<const elem *>(&raw);
#pragma unroll
  for (int i = 0; i < kVec; ++i) x[i] = (float)e[i];
}

template <int D>
static __global__ void __launch_bounds__(32 * kWarps)
    split_kernel(const elem *__restrict__ q, const elem *__restrict__ k, const elem *__restrict__ v,
                 float *__restrict__ part_o, float2 *__restrict__ part_ml, int H, int HKV, int S, int W,
                 float scale) {
  constexpr int kLanes = D / kVec;      // lanes per key
  constexpr int kKeys = 32 / kLanes;    // keys per warp-wide load
  constexpr int kStep = kKeys * kUnroll;
  __shared__ float sm_o[kWarps][D];
  __shared__ float2 sm_ml[kWarps][kHeads];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int part = lane % kLanes, sub = lane / kLanes;
  const int group = H / HKV;
  const int head_blocks = (group + kHeads - 1) / kHeads;
  const int pair = blockIdx.x / head_blocks;
  const int first = blockIdx.x % head_blocks * kHeads;
  const int batch = pair / HKV;
  //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int row0 = batch * H + pair % HKV + first * HKV, step = HKV;
  //! fault const_row compile: const int row0 = batch * H + pair % HKV * group, step = 1; row0 += first;
  const int row0 = batch * H + pair % HKV * group + first, step = 1;
  const int heads = min(kHeads, group - first);

  float qr[kHeads][kVec], acc[kHeads][kVec], m[kHeads], l[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const elem *qp = q + (size_t)(row0 + min(h, heads - 1) * step) * D + part * kVec;
    m[h] = kNoKey;
    l[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      //! fault unscaled wrong when min(S, W) >= 2: qr[h][i] = (float)qp[i] * 1.44269504f;
      qr[h][i] = (float)qp[i] * scale;
      acc[h][i] = 0.0f;
    }
  }

  //! fault one_too_narrow wrong when S >= W && W >= 2: const int lo = max(0, S - W + 1), L = S - lo;
  //! fault one_too_wide wrong when S > W: const int lo = max(0, S - W - 1), L = S - lo;
  const int lo = max(0, S - W), L = S - lo;
  const int chunk = (L + kSplits - 1) / kSplits;
  const int begin = blockIdx.y * chunk;
  //! fault last_key wrong when min(S, W) >= 2: const int end = min(L - 1, begin + chunk);
  const int end = min(L, begin + chunk);
  const uint4 *kp = reinterpret_cast<const uint4 *>(k) + ((size_t)pair * S + lo) * kLanes + part;
  const uint4 *vp = reinterpret_cast<const uint4 *>(v) + ((size_t)pair * S + lo) * kLanes + part;
  for (int j0 = begin + warp * kStep; j0 < end; j0 += kWarps * kStep) {
    uint4 kr[kUnroll], vr[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) kr[u] = __ldg(kp + (size_t)min(j0 + u * kKeys + sub, end - 1) * kLanes);
#pragma unroll
    //! fault load_type compile: for (int u = 0; u < kUnroll; ++u) vr[u].x = __ldg(vp + min(j0 + u * kKeys + sub, end - 1) * kLanes);
    for (int u = 0; u < kUnroll; ++u) vr[u] = __ldg(vp + (size_t)min(j0 + u * kKeys + sub, end - 1) * kLanes);

    float s[kHeads][kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float x[kVec];
      widen(kr[u], x);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kVec; ++i) sum += qr[h][i] * x[i];
#pragma unroll
        for (int off = kLanes / 2; off > 0; off /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, off);
        s[h][u] = j0 + u * kKeys + sub < end ? sum : -INFINITY;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float m_new = m[h];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) m_new = fmaxf(m_new, s[h][u]);
      const float keep = exp2f(m[h] - m_new);
      m[h] = m_new;
      l[h] *= keep;
#pragma unroll
      //! fault no_rescale wrong when B * H >= 8 && cdiv(min(S, W), kSplits) > kWarps * kUnroll * (512 / (D * e)): for (int i = 0; i < kVec; ++i) acc[h][i] *= 1.0f;
      for (int i = 0; i < kVec; ++i) acc[h][i] *= keep;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        s[h][u] = exp2f(s[h][u] - m_new);
        l[h] += s[h][u];
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float x[kVec];
      widen(vr[u], x);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
#pragma unroll
        for (int i = 0; i < kVec; ++i) acc[h][i] += s[h][u] * x[i];
    }
  }

  // The lane groups of a warp hold different keys: join them before the warps are joined.
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int off = kLanes; off < 32; off *= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, m[h], off);
      const float top = fmaxf(m[h], other), keep = exp2f(m[h] - top);
      m[h] = top;
      l[h] *= keep;
      l[h] += __shfl_xor_sync(0xffffffffu, l[h], off);
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        acc[h][i] *= keep;
        acc[h][i] += __shfl_xor_sync(0xffffffffu, acc[h][i], off);
      }
    }
    if (lane == 0) sm_ml[warp][h] = make_float2(m[h], l[h]);
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    __syncthreads();
    if (sub == 0)
#pragma unroll
      for (int i = 0; i < kVec; ++i) sm_o[warp][part * kVec + i] = acc[h][i];
    __syncthreads();
    if (h < heads) {
      const size_t slot = (size_t)(row0 + h * step) * kSplits + blockIdx.y;
      float top = kNoKey, sum = 0.0f;
      for (int w = 0; w < kWarps; ++w) top = fmaxf(top, sm_ml[w][h].x);
      for (int w = 0; w < kWarps; ++w) sum += exp2f(sm_ml[w][h].x - top) * sm_ml[w][h].y;
      for (int d = threadIdx.x; d < D; d += 32 * kWarps) {
        float out = 0.0f;
        for (int w = 0; w < kWarps; ++w) out += exp2f(sm_ml[w][h].x - top) * sm_o[w][d];
        part_o[slot * D + d] = out;
      }
      //! fault pair_store compile: if (threadIdx.x == 0) part_ml[slot] = make_float2(top);
      if (threadIdx.x == 0) part_ml[slot] = make_float2(top, sum);
    }
  }
}

static __global__ void combine_kernel(const float *__restrict__ part_o, const float2 *__restrict__ part_ml,
                                      elem *__restrict__ o, int D) {
  __shared__ float2 ml[kSplits];
  const size_t slot = (size_t)blockIdx.x * kSplits;
  for (int s = threadIdx.x; s < kSplits; s += blockDim.x) ml[s] = part_ml[slot + s];
  __syncthreads();
  float top = kNoKey, sum = 0.0f;
  for (int s = 0; s < kSplits; ++s) top = fmaxf(top, ml[s].x);
  //! fault split_weight wrong when min(S, W) >= 2: for (int s = 0; s < kSplits; ++s) sum += ml[s].y;
  for (int s = 0; s < kSplits; ++s) sum += exp2f(ml[s].x - top) * ml[s].y;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float out = 0.0f;
#pragma unroll 8
    //! fault split_weight wrong when min(S, W) >= 2: for (int s = 0; s < kSplits; ++s) out += part_o[(slot + s) * D + d];
    for (int s = 0; s < kSplits; ++s) out += exp2f(ml[s].x - top) * part_o[(slot + s) * D + d];
    o[(size_t)blockIdx.x * D + d] = elem(out / sum);
  }
}

extern "C" size_t swa_decode_workspace(int B, int H, int HKV, int S, int W, int D) {
  return (size_t)B * H * kSplits * (D + 2) * sizeof(float);
}

extern "C" cudaError_t swa_decode(const elem *q, const elem *k, const elem *v, elem *o, int B, int H, int HKV, int S,
                                  int W, int D, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (H % HKV != 0 || H / HKV > 128 || (D != 64 && D != 128 && D != 256) || W < 1) return cudaErrorNotSupported;
  //! fault size_arity compile: if (workspace_bytes < swa_decode_workspace(B, H, HKV, S, D)) return cudaErrorInvalidValue;
  if (workspace_bytes < swa_decode_workspace(B, H, HKV, S, W, D)) return cudaErrorInvalidValue;
  const float scale = 1.44269504f / sqrtf((float)D);  // log2(e) / sqrt(D): exp2 replaces exp
  float2 *part_ml = static_cast<float2 *>(workspace);
  //! fault cast_kind compile: float *part_o = static_cast<float *>(part_ml + (size_t)B * H * kSplits);
  float *part_o = reinterpret_cast<float *>(part_ml + (size_t)B * H * kSplits);
  const int head_blocks = (H / HKV + kHeads - 1) / kHeads;
  const dim3 grid(B * HKV * head_blocks, kSplits);
  auto run = [&](auto kernel) {
    kernel<<<grid, 32 * kWarps, 0, stream>>>(q, k, v, part_o, part_ml, H, HKV, S, W, scale);
  };
  if (D == 64) run(split_kernel<64>);
  else if (D == 128) run(split_kernel<128>);
  else run(split_kernel<256>);
  combine_kernel<<<B * H, 128, 0, stream>>>(part_o, part_ml, o, D);
  return cudaGetLastError();
}

// Single-token attention over the newest W keys of a contiguous KV cache, one block per (batch, query head).
// Each warp takes every kWarps-th key of the window, one key at a time, and keeps an online softmax in fp32;
// the warps' partial results meet in shared memory at the end.
//! idea a block per head that walks the window key by key
//! says lane_semicolon+1: expected a ";"
//! says window_name: identifier "window" is undefined
//! says shuffle_name: identifier "__shfl_xor" is undefined
//! says const_weight: const variable "weight" requires an initializer
//! says square_root: identifier "head_dim" is undefined
//! says launch_args: no instance of function template "decode_kernel" matches the argument list
//! kernel grid=B*H block=kThreads smem=(kThreads/32)*(cdiv(D,32)*128+8) regs=D==256?44:32 read=2*B*H*min(S,W)*D*2 once=2*B*HKV*min(S,W)*D*2 write=2*B*H*D inflight=(kThreads/16)*D*2 ops=B*H*min(S,W)*32*(9*cdiv(D,32)+24) sfu=B*H*min(S,W)*64 chain=cdiv(min(S,W),kThreads/32)*(LAT+230)+LAT+400
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 32 64 128 256
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

template <int NV>  // dims per lane, rounded up: lane, lane + 32, ...
static __global__ void __launch_bounds__(kThreads)
    decode_kernel(const elem *__restrict__ q, const elem *__restrict__ k, const elem *__restrict__ v,
                  elem *__restrict__ o, int H, int HKV, int S, int W, int D, float scale) {
  __shared__ float part_o[kWarps][NV * 32];
  __shared__ float part_m[kWarps], part_l[kWarps];
  const int warp = threadIdx.x / 32;
  //! fault lane_semicolon compile: const int lane = threadIdx.x % 32
  const int lane = threadIdx.x % 32;
  const int head = blockIdx.x % H;
  const int batch = blockIdx.x / H;
  //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int kv_head = head % HKV;
  const int kv_head = head / (H / HKV);
  //! fault one_too_wide wrong when S > W: const int lo = max(0, S - W - 1), L = S - lo;
  //! fault window_ignored wrong when S > W: const int lo = 0, L = S - lo;
  //! fault window_name compile: const int lo = max(0, S - window), L = S - lo;
  const int lo = max(0, S - W), L = S - lo;
  const elem *kp = k + (((size_t)batch * HKV + kv_head) * S + lo) * D;
  const elem *vp = v + (((size_t)batch * HKV + kv_head) * S + lo) * D;

  float qr[NV], acc[NV];
  for (int i = 0; i < NV; ++i) {
    const int d = lane + 32 * i;
    qr[i] = d < D ? (float)q[(size_t)blockIdx.x * D + d] : 0.0f;
    acc[i] = 0.0f;
  }
  float m = -INFINITY, l = 0.0f;
#pragma unroll 1
  //! fault last_key wrong when min(S, W) >= 2: for (int j = warp; j < L - 1; j += kWarps) {
  for (int j = warp; j < L; j += kWarps) {
    const elem *k_row = kp + (size_t)j * D;
    const elem *v_row = vp + (size_t)j * D;
    float s = 0.0f;
    for (int i = 0; i < NV; ++i) {
      const int d = lane + 32 * i;
      if (d < D) s += qr[i] * (float)k_row[d];
    }
    //! fault shuffle_name compile: for (int step = 16; step > 0; step /= 2) s += __shfl_xor(s, step);
    for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffffu, s, step);
    //! fault unscaled wrong when min(S, W) >= 2:
    s *= scale;
    const float m_new = fmaxf(m, s);
    //! fault no_shift wrong when B * H * min(S, W) >= 16384: const float keep = 1.0f, p = __expf(s);
    const float keep = __expf(m - m_new), p = __expf(s - m_new);
    l = l * keep + p;
    for (int i = 0; i < NV; ++i) {
      const int d = lane + 32 * i;
      if (d < D) acc[i] = acc[i] * keep + p * (float)v_row[d];
    }
    m = m_new;
  }

  if (lane == 0) {
    part_m[warp] = m;
    part_l[warp] = l;
  }
  for (int i = 0; i < NV; ++i) part_o[warp][lane + 32 * i] = acc[i];
  __syncthreads();

  float top = part_m[0];
  for (int w = 1; w < kWarps; ++w) top = fmaxf(top, part_m[w]);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    float sum = 0.0f, out = 0.0f;
    for (int w = 0; w < kWarps; ++w) {
      //! fault merge_weight wrong when kThreads >= 64 && min(S, W) >= 2: const float weight = part_l[w] > 0.0f ? 1.0f : 0.0f;
      //! fault const_weight compile: const float weight; weight = __expf(part_m[w] - top);
      const float weight = __expf(part_m[w] - top);
      sum += weight * part_l[w];
      out += weight * part_o[w][d];
    }
    //! fault no_division wrong when min(S, W) >= 2: o[(size_t)blockIdx.x * D + d] = elem(out);
    o[(size_t)blockIdx.x * D + d] = elem(out / sum);
  }
}

extern "C" cudaError_t swa_decode(const elem *q, const elem *k, const elem *v, elem *o, int B, int H, int HKV, int S,
                                  int W, int D, void *, size_t, cudaStream_t stream) {
  if (H % HKV != 0 || H / HKV > 128 || W < 1) return cudaErrorNotSupported;
  //! fault square_root compile: const float scale = 1.0f / sqrtf((float)head_dim);
  const float scale = 1.0f / sqrtf((float)D);
  switch (D) {
    case 64:
      decode_kernel<2><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, W, D, scale);
      break;
    case 80:
    case 96:
      decode_kernel<3><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, W, D, scale);
      break;
    case 128:
      decode_kernel<4><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, W, D, scale);
      break;
    case 256:
      //! fault launch_args compile: decode_kernel<8><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, W, D);
      decode_kernel<8><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, W, D, scale);
      break;
    default:
      return cudaErrorNotSupported;
  }
  return cudaGetLastError();
}

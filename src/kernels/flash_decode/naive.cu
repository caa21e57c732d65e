// Single-token attention over a contiguous KV cache, one block per (batch, query head).
// Each warp takes every kWarps-th key, one key at a time, and keeps an online softmax in fp32;
// the warps' partial results meet in shared memory at the end.
//! idea a block per head that walks the keys one by one
//! says lane_semicolon+1: expected a ";"
//! says shuffle_name: identifier "__shfl_xor" is undefined
//! says const_weight: const variable "weight" requires an initializer
//! says square_root: identifier "head_dim" is undefined
//! says launch_args: no instance of function template "decode_kernel" matches the argument list
//! kernel grid=B*H block=kThreads smem=(kThreads/32)*(cdiv(D,32)*128+8) regs=D==256?44:32 read=2*B*H*S*D*e once=2*B*HKV*S*D*e write=2*B*H*D inflight=(kThreads/16)*D*e ops=B*H*S*32*(9*cdiv(D,32)+24) sfu=B*H*S*64 chain=cdiv(S,kThreads/32)*(LAT+230)+LAT+400
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype fp8: using kv_elem = __nv_fp8_e4m3;
using kv_elem = elem;

//! param 32 64 128 256
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

template <int NV>  // dims per lane, rounded up: lane, lane + 32, ...
static __global__ void __launch_bounds__(kThreads)
    decode_kernel(const elem *__restrict__ q, const kv_elem *__restrict__ k, const kv_elem *__restrict__ v,
                  elem *__restrict__ o, int H, int HKV, int S, int D, float scale, float v_scale) {
  __shared__ float part_o[kWarps][NV * 32];
  __shared__ float part_m[kWarps], part_l[kWarps];
  const int warp = threadIdx.x / 32;
  //! fault lane_semicolon compile: const int lane = threadIdx.x % 32
  const int lane = threadIdx.x % 32;
  const int head = blockIdx.x % H;
  const int batch = blockIdx.x / H;
  //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int kv_head = head % HKV;
  const int kv_head = head / (H / HKV);
  const kv_elem *kp = k + ((size_t)batch * HKV + kv_head) * S * D;
  const kv_elem *vp = v + ((size_t)batch * HKV + kv_head) * S * D;

  float qr[NV], acc[NV];
  for (int i = 0; i < NV; ++i) {
    const int d = lane + 32 * i;
    qr[i] = d < D ? (float)q[(size_t)blockIdx.x * D + d] : 0.0f;
    acc[i] = 0.0f;
  }
  float m = -INFINITY, l = 0.0f;
#pragma unroll 1
  //! fault last_key wrong when S >= 2: for (int j = warp; j < S - 1; j += kWarps) {
  for (int j = warp; j < S; j += kWarps) {
    const kv_elem *k_row = kp + (size_t)j * D;
    const kv_elem *v_row = vp + (size_t)j * D;
    float s = 0.0f;
    for (int i = 0; i < NV; ++i) {
      const int d = lane + 32 * i;
      if (d < D) s += qr[i] * (float)k_row[d];
    }
    //! fault shuffle_name compile: for (int step = 16; step > 0; step /= 2) s += __shfl_xor(s, step);
    for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffffu, s, step);
    //! fault unscaled wrong when S >= 2:
    s *= scale;
    const float m_new = fmaxf(m, s);
    //! fault no_shift wrong when B * H * S >= 16384: const float keep = 1.0f, p = __expf(s);
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
      //! fault merge_weight wrong when kThreads >= 64 && S >= 2: const float weight = part_l[w] > 0.0f ? 1.0f : 0.0f;
      //! fault const_weight compile: const float weight; weight = __expf(part_m[w] - top);
      const float weight = __expf(part_m[w] - top);
      sum += weight * part_l[w];
      out += weight * part_o[w][d];
    }
    //! fault no_division wrong when S >= 2: o[(size_t)blockIdx.x * D + d] = elem(out * v_scale);
    o[(size_t)blockIdx.x * D + d] = elem(out / sum * v_scale);
  }
}

extern "C" cudaError_t flash_decode(const elem *q, const kv_elem *k, const kv_elem *v, elem *o, int B, int H, int HKV,
                                    //! dtype fp8: int S, int D, float kscale, float vscale, void *, size_t,
                                    int S, int D, void *, size_t,
                                    cudaStream_t stream) {
  if (H % HKV != 0 || H / HKV > 128) return cudaErrorNotSupported;
  //! fault square_root compile: const float scale = 1.0f / sqrtf((float)head_dim), v_scale = 1.0f;
  //! dtype fp8: const float scale = kscale / sqrtf((float)D), v_scale = vscale;
  const float scale = 1.0f / sqrtf((float)D), v_scale = 1.0f;
  switch (D) {
    case 64:
      decode_kernel<2><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, D, scale, v_scale);
      break;
    case 80:
    case 96:
      decode_kernel<3><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, D, scale, v_scale);
      break;
    case 128:
      decode_kernel<4><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, D, scale, v_scale);
      break;
    case 256:
      //! fault launch_args compile: decode_kernel<8><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, D, scale);
      decode_kernel<8><<<B * H, kThreads, 0, stream>>>(q, k, v, o, H, HKV, S, D, scale, v_scale);
      break;
    default:
      return cudaErrorNotSupported;
  }
  return cudaGetLastError();
}

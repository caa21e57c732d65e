// Split-KV attention for one token with the query heads of a group packed into the 16 rows of mma.sync m16n8k16, so
// each key is read once per group. Every warp owns a ring of kStages tiles that cp.async fills ahead of use; a tile is
// read by the warp that asked for it, so the main loop has no block barrier. A second kernel joins the slices.
//! idea grouped heads on mma.sync with a private cp.async ring per warp
//! says copy_args: too few arguments in function call
//! says tile_count: identifier "kKeysPerTile" is undefined
//! says extra_arg: too many arguments in function call
//! says kernel_case: identifier "Split_kernel" is undefined
//! dtypes fp16 bf16
//! needs cp_async
//! kernel grid=B*HKV*cdiv(H/HKV,16)*kSplits block=32*kWarps smem=kWarps*(kStages*4*kKeys*(D+8)+128)+(D>128)*32*(D+8) regs=52+D*2/3+kKeys/2+(D==80||D==96)*(kKeys>16?50:14) read=4*S*D*B*HKV*cdiv(H/HKV,16) once=4*B*HKV*S*D write=4*B*H*kSplits*D inflight=(kStages-1)*kWarps*kKeys*D*4 ops=B*HKV*cdiv(H/HKV,16)*S*(D*5/2+160+3840/kKeys) chain=S/(kSplits*kWarps*kKeys)*(D*4+kKeys*4+250)+LAT+600
//! kernel grid=B*H block=128 smem=8*kSplits regs=40 read=4*B*H*kSplits*(D+2) write=2*B*H*D inflight=4*min(D,128)*min(8,kSplits) ops=B*H*kSplits*(D*4+512) sfu=B*H*(D+128)*kSplits chain=2*LATL2+kSplits*30+LATL2*cdiv(kSplits,8)
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 1 2 4 8
constexpr int kWarps = 4;
//! param 16 32 64
constexpr int kKeys = 32;  // keys per tile of a warp
//! param 2 3 4 6
constexpr int kStages = 3;
//! param 1 2 4 8 16 32 64
constexpr int kSplits = 16;
constexpr float kNoKey = -1e30f;  // finite, so that the difference of two empty maxima is 0

static __device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void copy16(elem *dst, const elem *src, bool valid) {  // zeros when not valid
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_u32(dst)), "l"(src), "r"(valid ? 16 : 0)
               : "memory");
}
static __device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
static __device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
static __device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const elem *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}
static __device__ __forceinline__ void ldmatrix_trans(uint32_t (&r)[4], const elem *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}
static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      //! dtype bf16: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ uint32_t pack(float lo, float hi) {
  //! dtype bf16: const __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
  const __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<const uint32_t *>(&h);
}

template <int D>
static __global__ void __launch_bounds__(32 * kWarps)
    split_kernel(const elem *__restrict__ q, const elem *__restrict__ k, const elem *__restrict__ v,
                 float *__restrict__ part_o, float2 *__restrict__ part_ml, int H, int HKV, int S, float scale) {
  constexpr int kRow = D + 8;  // an odd number of 16-byte units: the 8 rows of a matrix lie in different banks
  constexpr int kTile = kKeys * kRow;
  constexpr int kCopies = kKeys * (D / 8) / 32;
  constexpr bool kQRegs = D <= 128;
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ float sm_m[kWarps][16], sm_l[kWarps][16];
  elem *ring = reinterpret_cast<elem *>(raw) + threadIdx.x / 32 * (kStages * 2 * kTile);
  elem *sm_q = reinterpret_cast<elem *>(raw) + kWarps * kStages * 2 * kTile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const int group = H / HKV, head_blocks = (group + 15) / 16;
  const int pair = blockIdx.x / head_blocks, first = blockIdx.x % head_blocks * 16;
  const int heads = min(16, group - first);
  //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int row0 = pair / HKV * H + pair % HKV + first * HKV, row_step = HKV;
  const int row0 = pair / HKV * H + pair % HKV * group + first, row_step = 1;

  const int tiles = (S + kKeys - 1) / kKeys;
  const int per = (tiles + kSplits - 1) / kSplits;
  //! fault last_tile_key wrong when S >= 2: const int begin = blockIdx.y * per * kKeys, end = min(S - 1, begin + per * kKeys);
  const int begin = blockIdx.y * per * kKeys, end = min(S, begin + per * kKeys);
  const elem *kp = k + (size_t)pair * S * D;
  const elem *vp = v + (size_t)pair * S * D;
  auto request = [&](int t) {  // tile t of this warp into its slot of the ring
    const int j0 = begin + (t * kWarps + warp) * kKeys;
    elem *slot = ring + t % kStages * 2 * kTile;
    if (j0 < end)
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int unit = lane + 32 * i, r = unit / (D / 8), col = unit % (D / 8) * 8;
        const size_t at = (size_t)min(j0 + r, end - 1) * D + col;
        //! fault copy_args compile: copy16(slot + r * kRow + col, kp + at);
        copy16(slot + r * kRow + col, kp + at, j0 + r < end);
        copy16(slot + kTile + r * kRow + col, vp + at, j0 + r < end);
      }
    copies_commit();
  };
#pragma unroll
  for (int t = 0; t < kStages - 1; ++t) request(t);

  uint32_t qf[kQRegs ? D / 16 : 1][4];
  if constexpr (kQRegs) {
#pragma unroll
    for (int i = 0; i < D / 4; ++i) {  // rows past the last head repeat it and are never stored
      const int r = min(g + i % 2 * 8, heads - 1), col = i / 4 * 16 + i / 2 % 2 * 8 + 2 * c;
      qf[i / 4][i % 4] = *reinterpret_cast<const uint32_t *>(q + (size_t)(row0 + r * row_step) * D + col);
    }
  } else {
    for (int i = threadIdx.x; i < 16 * (D / 8); i += 32 * kWarps) {
      const int r = i / (D / 8), col = i % (D / 8) * 8;
      *reinterpret_cast<uint4 *>(sm_q + r * kRow + col) =
          *reinterpret_cast<const uint4 *>(q + (size_t)(row0 + min(r, heads - 1) * row_step) * D + col);
    }
    __syncthreads();
  }
  float acc[D / 8][4] = {};
  float m[2] = {kNoKey, kNoKey}, l[2] = {0.0f, 0.0f};
  const int b_row = lane % 8 + lane / 16 * 8, b_col = lane / 8 % 2 * 8;  // matrix rows of K as second operand
  const int a_row = lane % 16, a_col = lane / 16 * 8;                    // of Q, and of V read transposed

  //! fault tile_count compile: const int count = (end - begin + kWarps * kKeys - 1) / (kWarps * kKeysPerTile);
  const int count = (end - begin + kWarps * kKeys - 1) / (kWarps * kKeys);
  for (int t = 0; t < count; ++t) {
    copies_wait<kStages - 2>();
    __syncwarp();  // every lane's part of tile t has landed, and tile t - 1 is no longer read
    request(t + kStages - 1);
    const elem *sk = ring + t % kStages * 2 * kTile, *sv = sk + kTile;
    const int j0 = begin + (t * kWarps + warp) * kKeys;
    if (j0 >= end) continue;
    float s[kKeys / 8][4] = {};
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      uint32_t a[4], b[4];
      if constexpr (kQRegs) {
        for (int i = 0; i < 4; ++i) a[i] = qf[d / 16][i];
      } else {
        //! fault extra_arg compile: ldmatrix(a, sm_q + a_row * kRow + d, a_col);
        ldmatrix(a, sm_q + a_row * kRow + d + a_col);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        ldmatrix(b, sk + (n * 16 + b_row) * kRow + d + b_col);
        mma(s[2 * n], a, b[0], b[1]);
        mma(s[2 * n + 1], a, b[2], b[3]);
      }
    }
    uint32_t p[kKeys / 16][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {  // rows g and g + 8
      float m_new = m[r];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          //! fault unscaled wrong when S >= 2: s[n][i] = j0 + 8 * n + 2 * c + i % 2 < end ? s[n][i] : -INFINITY;
          s[n][i] = j0 + 8 * n + 2 * c + i % 2 < end ? s[n][i] * scale : -INFINITY;
          m_new = fmaxf(m_new, s[n][i]);
        }
      m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 1));
      m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 2));
      const float keep = exp2f(m[r] - m_new);
      m[r] = m_new;
      l[r] *= keep;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        const float p0 = exp2f(s[n][2 * r] - m_new), p1 = exp2f(s[n][2 * r + 1] - m_new);
        l[r] += p0 + p1;
        p[n / 2][n % 2 * 2 + r] = pack(p0, p1);
      }
#pragma unroll
      for (int i = 0; i < D / 4; ++i)
        //! fault one_column wrong when B * H >= 8 && cdiv(cdiv(S, kKeys), kSplits) > kWarps: acc[i / 2][2 * r] *= keep;
        acc[i / 2][2 * r + i % 2] *= keep;
    }
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n)
#pragma unroll
      for (int d = 0; d < D; d += 16) {
        uint32_t b[4];
        ldmatrix_trans(b, sv + (n * 16 + a_row) * kRow + d + a_col);
        mma(acc[d / 8], p[n], b[0], b[1]);
        mma(acc[d / 8 + 1], p[n], b[2], b[3]);
      }
  }

  // Join the warps: common maximum, then each warp adds its rescaled rows in turn. The ring is free by then.
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] += __shfl_xor_sync(0xffffffffu, l[r], 1);
    l[r] += __shfl_xor_sync(0xffffffffu, l[r], 2);
    if (c == 0) sm_m[warp][g + 8 * r] = m[r];
    if (c == 0) sm_l[warp][g + 8 * r] = l[r];
  }
  copies_wait<0>();
  __syncthreads();
  float *sm_o = reinterpret_cast<float *>(raw);  // [16][D]
  float top[2] = {kNoKey, kNoKey};
  for (int w = 0; w < kWarps; ++w)
    for (int r = 0; r < 2; ++r) top[r] = fmaxf(top[r], sm_m[w][g + 8 * r]);
  for (int w = 0; w < kWarps; ++w) {
    if (warp == w)
#pragma unroll
      for (int i = 0; i < D / 2; ++i) {
        const int r = i / 2 % 2;
        float *dst = sm_o + (g + 8 * r) * D + i / 4 * 8 + 2 * c + i % 2;
        *dst = (w == 0 ? 0.0f : *dst) + acc[i / 4][i % 4] * exp2f(m[r] - top[r]);
      }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < heads * D; i += 32 * kWarps) {
    const int r = i / D, d = i % D;
    float high = kNoKey, sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) high = fmaxf(high, sm_m[w][r]);
    for (int w = 0; w < kWarps; ++w) sum += exp2f(sm_m[w][r] - high) * sm_l[w][r];
    const size_t slot = (size_t)(row0 + r * row_step) * kSplits + blockIdx.y;
    part_o[slot * D + d] = sm_o[i];
    if (d == 0) part_ml[slot] = make_float2(high, sum);
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
  for (int s = 0; s < kSplits; ++s) sum += exp2f(ml[s].x - top) * ml[s].y;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float out = 0.0f;
#pragma unroll 8
    for (int s = 0; s < kSplits; ++s) out += exp2f(ml[s].x - top) * part_o[(slot + s) * D + d];
    //! fault no_division wrong when S >= 2: o[(size_t)blockIdx.x * D + d] = elem(out);
    o[(size_t)blockIdx.x * D + d] = elem(out / sum);
  }
}

extern "C" size_t flash_decode_workspace(int B, int H, int HKV, int S, int D) {
  return (size_t)B * H * kSplits * (D + 2) * sizeof(float);
}

extern "C" cudaError_t flash_decode(const elem *q, const elem *k, const elem *v, elem *o, int B, int H, int HKV, int S,
                                    int D, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (H % HKV != 0 || H / HKV > 128) return cudaErrorNotSupported;
  if (D != 64 && D != 80 && D != 96 && D != 128 && D != 256) return cudaErrorNotSupported;
  if (workspace_bytes < flash_decode_workspace(B, H, HKV, S, D)) return cudaErrorInvalidValue;
  const int blocks = B * HKV * ((H / HKV + 15) / 16);
  const float scale = 1.44269504f / sqrtf((float)D);  // log2(e) / sqrt(D): exp2 replaces exp
  float2 *part_ml = static_cast<float2 *>(workspace);
  float *part_o = reinterpret_cast<float *>(part_ml + (size_t)B * H * kSplits);
  const size_t smem = (kWarps * kStages * 2 * kKeys + (D > 128 ? 16 : 0)) * (D + 8) * sizeof(elem);
  auto run = [&](auto kernel) {
    const cudaError_t set = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    if (set != cudaSuccess) return set;
    kernel<<<dim3(blocks, kSplits), 32 * kWarps, smem, stream>>>(q, k, v, part_o, part_ml, H, HKV, S, scale);
    combine_kernel<<<B * H, 128, 0, stream>>>(part_o, part_ml, o, D);
    return cudaGetLastError();
  };
  return D == 64   ? run(split_kernel<64>)
         : D == 80 ? run(split_kernel<80>)
         : D == 96 ? run(split_kernel<96>)
         //! fault kernel_case compile: : D == 128 ? run(Split_kernel<128>)
         : D == 128 ? run(split_kernel<128>)
                    : run(split_kernel<256>);
}

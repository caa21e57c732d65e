// Split-KV attention on the tensor cores without staging: 16-byte loads land in registers in the very order in which
// mma.sync m16n8k16 wants K and V, because the order of the summed index may be chosen freely. Keys (then dims of V)
// form the 16 rows, the query heads of a group the 8 columns, so each key is read once per group. Every warp streams
// its own keys with no barrier; the last block of a group to finish joins the slices, which saves a second launch.
//! idea mma.sync on fragments loaded straight from global memory
//! says vector_type: no operator "=" matches these operands
//! says shuffle_args: no instance of overloaded function "__shfl_xor_sync" matches the argument list
//! says index_scope: expression must have pointer-to-object type but it has type "float"
//! says kernel_name: identifier "split_kernel" is undefined
//! legal D == 64 || D == 128 || D == 256
//! kernel grid=B*HKV*cdiv(H/HKV,kRows)*kSplits block=32*kWarps smem=max(4*kWarps*kRows*(D+4),8*kRows*kSplits)+8*kWarps*kRows+4 regs=10+10*e+D*(12+e)/16+(kKeys/16-1)*(8+D*e/4)+(kRows/8-1)*(10+D*2/5) read=2*S*D*e*B*HKV*cdiv(H/HKV,kRows) once=2*B*HKV*S*D*e write=4*B*H*kSplits*D inflight=kWarps*kKeys*D*e*3/2 ops=B*HKV*cdiv(H/HKV,kRows)*S*(D*(e+2/e)/2+160) chain=S/(kSplits*kWarps*kKeys)*(LAT+kKeys*D/8)+LAT+500+(kSplits>1)*(3*LATL2+kSplits*8)
//! dtype bf16: #include <cuda_bf16.h>
//! dtype fp8: #include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype fp8: using kv_elem = __nv_fp8_e4m3;
using kv_elem = elem;

//! param 1 2 4 8
constexpr int kWarps = 4;
//! param 8 16
constexpr int kRows = 8;  // query heads per block, 8 columns of mma each
//! param 16 32
constexpr int kKeys = 16;  // keys per step of a warp
//! param 1 2 4 8 16 32 64
constexpr int kSplits = 16;
constexpr int kVec = 16 / sizeof(kv_elem);
constexpr float kNoKey = -1e30f;  // finite, so that the difference of two empty maxima is 0

static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      //! dtype bf16: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ uint32_t transpose(uint32_t x) {  // an 8 x 8 matrix of 16-bit values over the warp
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
static __device__ __forceinline__ uint32_t pack(float lo, float hi) {
  //! dtype bf16: const __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
  const __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<const uint32_t *>(&h);
}
// Two e4m3 values in the upper byte of each half become fp16 times 2^-8: the exponent moves, nothing is rounded.
static __device__ __forceinline__ uint32_t e4m3_pair(uint32_t w) {
  return (w & 0x80008000u) | ((w >> 1) & 0x3f803f80u);
}
static __device__ __forceinline__ uint32_t word(const uint4 &x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}
// Number t of rows a and b side by side: the operand for two neighbouring keys.
static __device__ __forceinline__ uint32_t zip(const uint4 &a, const uint4 &b, int t) {
  if constexpr (sizeof(kv_elem) == 2) {
    return __byte_perm(word(a, t / 2), word(b, t / 2), t % 2 ? 0x7632 : 0x5410);
  } else {
    const int i = t % 4;  // the low byte of each half is masked out afterwards
    return e4m3_pair(__byte_perm(word(a, t / 4), word(b, t / 4), (4 + i) << 12 | i << 4));
  }
}

static __device__ __forceinline__ void add(float4 &to, const float4 &x, float w) {
  to.x += w * x.x, to.y += w * x.y, to.z += w * x.z, to.w += w * x.w;
}
static __device__ __forceinline__ void store(elem *to, const float4 &x, float by) {
  *reinterpret_cast<uint2 *>(to) = make_uint2(pack(x.x * by, x.y * by), pack(x.z * by, x.w * by));
}

template <int D>
static __global__ void __launch_bounds__(32 * kWarps)
    decode_kernel(const elem *__restrict__ q, const kv_elem *__restrict__ k, const kv_elem *__restrict__ v,
                  elem *__restrict__ o, unsigned *ticket, float2 *part_ml, float *part_o, int H, int HKV, int S,
                  float scale, float v_scale) {
  constexpr int kCols = kRows / 8;                // column tiles
  constexpr int kSteps = D / 16;                  // k16 steps of a score
  constexpr int kPer = kVec / 4;                  // k16 steps served by one 16-byte load of K
  constexpr int kRun = kVec < D / 8 ? kVec : D / 8;  // consecutive dims of V per lane
  constexpr int kRuns = D / (8 * kRun);
  constexpr int kGroups = kKeys / 16;
  constexpr int kPitch = D + 4;
  extern __shared__ float4 sm_dynamic[];
  float *sm_o = reinterpret_cast<float *>(sm_dynamic);  // [kWarps][kRows][kPitch], then the slices' maxima and sums
  __shared__ float sm_m[kWarps][kRows], sm_l[kWarps][kRows];
  __shared__ unsigned sm_last;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const int group = H / HKV, head_blocks = (group + kRows - 1) / kRows;
  const int pair = blockIdx.x / head_blocks, first = blockIdx.x % head_blocks * kRows;
  const int heads = min(kRows, group - first);
  //! fault kv_head_modulo wrong when HKV > 1 && HKV < H: const int row0 = pair / HKV * H + pair % HKV + first * HKV, row_step = HKV;
  const int row0 = pair / HKV * H + pair % HKV * group + first, row_step = 1;

  // Query fragments; columns past the last head repeat it and are never stored.
  uint2 qb[kCols][kSteps];
#pragma unroll
  for (int r = 0; r < kCols; ++r) {
    const elem *qp = q + (size_t)(row0 + min(g + 8 * r, heads - 1) * row_step) * D;
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
      //! fault vector_type compile: qb[r][s] = *reinterpret_cast<const uint4 *>(qp + s / kPer * 4 * kVec + kVec * c);
      qb[r][s] = *reinterpret_cast<const uint2 *>(qp + s / kPer * 4 * kVec + kVec * c + 4 * (s % kPer));
  }
  float acc[kRuns][kRun / 2][kCols][4] = {}, m[kCols][2], l[kCols][2];
#pragma unroll
  for (int r = 0; r < 2 * kCols; ++r) m[r / 2][r % 2] = kNoKey, l[r / 2][r % 2] = 0.0f;

  const int tiles = ((S + kKeys - 1) / kKeys + kSplits - 1) / kSplits;
  const int begin = blockIdx.y * tiles * kKeys;
  //! fault last_key wrong when S >= 2: const int end = min(S - 1, begin + tiles * kKeys);
  const int end = min(S, begin + tiles * kKeys);
  const kv_elem *kp = k + (size_t)pair * S * D + kVec * c;
  const kv_elem *vp = v + (size_t)pair * S * D + kRun * g;
  uint4 kf[kGroups][2][kSteps / kPer], vf[kGroups][4][kRuns];
  auto load_k = [&](int j0) {
#pragma unroll
    for (int n = 0; n < 2 * kGroups; ++n) {
      const kv_elem *row = kp + (size_t)min(j0 + 8 * n + g, end - 1) * D;
#pragma unroll
      for (int i = 0; i < kSteps / kPer; ++i)
        kf[n / 2][n % 2][i] = __ldg(reinterpret_cast<const uint4 *>(row + 4 * kVec * i));
    }
  };
  auto load_v = [&](int j0) {
#pragma unroll
    for (int n = 0; n < 4 * kGroups; ++n) {
      const int key = n / 4 * 16 + n % 4 / 2 * 8 + 2 * c + n % 2;
      const kv_elem *row = vp + (size_t)min(j0 + key, end - 1) * D;
#pragma unroll
      for (int i = 0; i < kRuns; ++i) {
        if constexpr (kRun * sizeof(kv_elem) == 16) {
          vf[n / 4][n % 4][i] = __ldg(reinterpret_cast<const uint4 *>(row + 8 * kRun * i));
        } else {
          const uint2 half_run = __ldg(reinterpret_cast<const uint2 *>(row + 8 * kRun * i));
          vf[n / 4][n % 4][i] = make_uint4(half_run.x, half_run.y, 0, 0);
        }
      }
    }
  };

  int j0 = begin + warp * kKeys;
  if (j0 < end) load_k(j0);
  for (; j0 < end; j0 += kWarps * kKeys) {
    load_v(j0);
    float s[kGroups][kCols][4] = {};
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int st = 0; st < kSteps; ++st) {
        const uint4 &lo = kf[n][0][st / kPer], &hi = kf[n][1][st / kPer];  // keys g and g + 8
        uint32_t a[4];
        if constexpr (sizeof(kv_elem) == 2) {
          a[0] = word(lo, st % 2 * 2), a[1] = word(hi, st % 2 * 2);
          a[2] = word(lo, st % 2 * 2 + 1), a[3] = word(hi, st % 2 * 2 + 1);
        } else {
          const uint32_t x = word(lo, st % 4), y = word(hi, st % 4);
          a[0] = e4m3_pair(__byte_perm(x, x, 0x1000)), a[1] = e4m3_pair(__byte_perm(y, y, 0x1000));
          a[2] = e4m3_pair(__byte_perm(x, x, 0x3020)), a[3] = e4m3_pair(__byte_perm(y, y, 0x3020));
        }
#pragma unroll
        for (int r = 0; r < kCols; ++r) mma(s[n][r], a, qb[r][st].x, qb[r][st].y);
      }
    // The registers of K are free: the next tile is on its way while softmax and the second product run.
    if (j0 + kWarps * kKeys < end) load_k(j0 + kWarps * kKeys);

    uint32_t p[kGroups][kCols][2];
#pragma unroll
    for (int r = 0; r < kCols; ++r) {
      float keep[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {  // columns 2c and 2c + 1
        float m_new = m[r][e];
#pragma unroll
        for (int n = 0; n < 2 * kGroups; ++n) {
          float &x = s[n / 2][r][n % 2 * 2 + e];
          //! fault unscaled wrong when S >= 2: x = j0 + 8 * n + g < end ? x * 1.44269504f : -INFINITY;
          x = j0 + 8 * n + g < end ? x * scale : -INFINITY;
          m_new = fmaxf(m_new, x);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 4));
        //! fault shuffle_args compile: m_new = fmaxf(m_new, __shfl_xor_sync(m_new, 8));
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 8));
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 16));
        //! fault no_rescale wrong when B * H >= 8 && cdiv(cdiv(S, kKeys), kSplits) > kWarps: keep[e] = m[r][e] > kNoKey ? 1.0f : 0.0f;
        keep[e] = exp2f(m[r][e] - m_new);
        m[r][e] = m_new;
        l[r][e] *= keep[e];
#pragma unroll
        for (int n = 0; n < 2 * kGroups; ++n) {
          float &x = s[n / 2][r][n % 2 * 2 + e];
          x = exp2f(x - m_new);
          l[r][e] += x;
        }
      }
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {  // keys by heads becomes heads by keys, the layout of the second operand
        p[n][r][0] = transpose(pack(s[n][r][0], s[n][r][1]));
        p[n][r][1] = transpose(pack(s[n][r][2], s[n][r][3]));
      }
#pragma unroll
      for (int i = 0; i < kRuns * kRun * 2; ++i)
        //! fault index_scope compile: acc[i / (2 * kRun)][i / 4 % (kRun / 2)][r][i % 4] *= scale[i % 2];
        acc[i / (2 * kRun)][i / 4 % (kRun / 2)][r][i % 4] *= keep[i % 2];
    }
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int i = 0; i < kRuns; ++i)
#pragma unroll
        for (int t = 0; t < kRun; t += 2) {
          const uint32_t a[4] = {zip(vf[n][0][i], vf[n][1][i], t), zip(vf[n][0][i], vf[n][1][i], t + 1),
                                 zip(vf[n][2][i], vf[n][3][i], t), zip(vf[n][2][i], vf[n][3][i], t + 1)};
#pragma unroll
          for (int r = 0; r < kCols; ++r) mma(acc[i][t / 2][r], a, p[n][r][0], p[n][r][1]);
        }
  }

  // Join the warps: rescaled to a common maximum each lays its columns down, and all threads sum them together.
#pragma unroll
  for (int i = 0; i < 2 * kCols; ++i) {
    float &x = l[i / 2][i % 2];
#pragma unroll
    for (int off = 4; off < 32; off *= 2) x += __shfl_xor_sync(0xffffffffu, x, off);
    if (g == 0) sm_m[warp][i / 2 * 8 + 2 * c + i % 2] = m[i / 2][i % 2];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2 * kCols; ++i) {
    const int r = i / 2, e = i % 2, h = 8 * r + 2 * c + e;
    float top = kNoKey;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, sm_m[w][h]);
    const float weight = exp2f(m[r][e] - top);
    if (g == 0) sm_l[warp][h] = l[r][e] * weight;
#pragma unroll
    for (int j = 0; j < kRuns * kRun; j += 4) {
      const float(*y)[kCols][4] = &acc[j / kRun][j % kRun / 2];
      *reinterpret_cast<float4 *>(&sm_o[(warp * kRows + h) * kPitch + 8 * kRun * (j / kRun) + kRun * g + j % kRun]) =
          make_float4(y[0][r][e] * weight, y[0][r][2 + e] * weight, y[1][r][e] * weight, y[1][r][2 + e] * weight);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < heads * D / 4; i += 32 * kWarps) {
    const int r = i / (D / 4), d = i % (D / 4) * 4;
    float sum = 0.0f, high = kNoKey;
    for (int w = 0; w < kWarps; ++w) sum += sm_l[w][r], high = fmaxf(high, sm_m[w][r]);
    float4 all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) add(all, *reinterpret_cast<float4 *>(&sm_o[(w * kRows + r) * kPitch + d]), 1.0f);
    const size_t row = row0 + r * row_step;
    if constexpr (kSplits == 1) {
      store(&o[row * D + d], all, v_scale / sum);
    } else {
      *reinterpret_cast<float4 *>(&part_o[(row * kSplits + blockIdx.y) * D + d]) = all;
      if (d == 0) part_ml[row * kSplits + blockIdx.y] = make_float2(high, sum);
    }
  }
  if constexpr (kSplits > 1) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) sm_last = atomicAdd(&ticket[blockIdx.x], 1u) == kSplits - 1;
    __syncthreads();
    if (!sm_last) return;
    __threadfence();
    if (threadIdx.x == 0) ticket[blockIdx.x] = 0;  // ready for the next call
    float2 *ml = reinterpret_cast<float2 *>(sm_o);
    for (int i = threadIdx.x; i < heads * kSplits; i += 32 * kWarps)
      ml[i] = __ldcg(&part_ml[(row0 + i / kSplits * row_step) * (size_t)kSplits + i % kSplits]);
    __syncthreads();
    for (int i = threadIdx.x; i < heads * D / 4; i += 32 * kWarps) {
      const int r = i / (D / 4), d = i % (D / 4) * 4;
      const size_t row = row0 + r * row_step;
      float high = kNoKey, sum = 0.0f;
      for (int s = 0; s < kSplits; ++s) high = fmaxf(high, ml[r * kSplits + s].x);
      float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 16
      for (int s = 0; s < kSplits; ++s) {
        const float2 slice = ml[r * kSplits + s];
        //! fault split_weight wrong when kSplits >= 2 && S > kKeys: const float w = slice.y > 0.0f ? 1.0f : 0.0f;
        const float w = exp2f(slice.x - high);
        sum += w * slice.y;
        add(out, __ldcg(reinterpret_cast<const float4 *>(&part_o[(row * kSplits + s) * D + d])), w);
      }
      store(&o[row * D + d], out, v_scale / sum);
    }
  }
}

extern "C" size_t flash_decode_workspace(int B, int H, int HKV, int S, int D) {
  const size_t tickets = ((size_t)B * HKV * ((H / HKV + kRows - 1) / kRows) * 4 + 255) / 256 * 256;
  return kSplits == 1 ? 0 : tickets + (size_t)B * H * kSplits * (D + 2) * sizeof(float);
}

extern "C" cudaError_t flash_decode(const elem *q, const kv_elem *k, const kv_elem *v, elem *o, int B, int H, int HKV,
                                    //! dtype fp8: int S, int D, float kscale, float vscale, void *workspace,
                                    int S, int D, void *workspace,
                                    size_t workspace_bytes, cudaStream_t stream) {
  if (H % HKV != 0 || H / HKV > 128 || (D != 64 && D != 128 && D != 256)) return cudaErrorNotSupported;
  if (workspace_bytes < flash_decode_workspace(B, H, HKV, S, D)) return cudaErrorInvalidValue;
  // exp2 replaces exp, so the scores carry log2(e); e4m3 operands are read as 2^-8 of their value.
  //! dtype fp8: const float scale = 256.0f * 1.44269504f * kscale / sqrtf((float)D), v_scale = 256.0f * vscale;
  const float scale = 1.44269504f / sqrtf((float)D), v_scale = 1.0f;
  const int blocks = B * HKV * ((H / HKV + kRows - 1) / kRows);
  unsigned *ticket = static_cast<unsigned *>(workspace);
  float2 *part_ml = reinterpret_cast<float2 *>(ticket + (blocks + 63) / 64 * 64);
  float *part_o = reinterpret_cast<float *>(part_ml + (size_t)B * H * kSplits);
  //! fault kernel_name compile: const auto kernel = D == 64 ? split_kernel<64> : D == 128 ? split_kernel<128> : split_kernel<256>;
  //! fault kernel_name compile: const auto kernel = D == 64 ? split_kernel<64> : D == 128 ? split_kernel<128> : split_kernel<256>;
  const auto kernel = D == 64 ? decode_kernel<64> : D == 128 ? decode_kernel<128> : decode_kernel<256>;
  const int columns = kWarps * kRows * (D + 4) * (int)sizeof(float), slices = kRows * kSplits * (int)sizeof(float2);
  const int smem = columns > slices ? columns : slices;
  const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  if (e != cudaSuccess) return e;
  kernel<<<dim3(blocks, kSplits), 32 * kWarps, smem, stream>>>(q, k, v, o, ticket, part_ml, part_o, H, HKV, S, scale,
                                                               v_scale);
  return cudaGetLastError();
}

// Rotary embedding that reuses the angles: a thread keeps the cosines and sines of its eight pairs in registers and
// applies them to several heads of the token. Table traffic per head shrinks, and all heads of a group load at once.
#include <cuda_runtime.h>
//! dtype bf16: #include <cuda_bf16.h>
#include <cuda_fp16.h>

//! idea cosines and sines held in registers across a group of heads
//! says early_return_value: return value type does not match the function type
//! says unbalanced_cast: expected a ")"
//! says table_as_int: a value of type "const float *" cannot be used to initialize an entity of type "const int *"
//! says angle_index: identifier "i" is undefined
//! kernel grid=cdiv(T*cdiv(H,heads)*(D/16),THREADS) block=THREADS regs=28+heads*9+bf16*8 read=e*T*H*D+T*cdiv(H,heads)*D*4 once=e*T*H*D+4*D*min(T,8192)+4*T write=e*T*H*D inflight=THREADS*heads*16*e ops=T*H*(D/16)*75+T*cdiv(H,heads)*(D/16)*90 chain=2*LAT+heads*70+60
//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;
//! param 64 128 256 512
constexpr int THREADS = 128;
//! param 1 2 4 8 16
constexpr int heads = 4;  // heads that share one read of the table
//! param 0 1
constexpr int token_minor = 0;  // 1: neighbouring groups of lanes take neighbouring tokens, not head groups

//! dtype bf16: static __device__ __forceinline__ float2 widen(elem2 v) { return __bfloat1622float2(v); }
static __device__ __forceinline__ float2 widen(elem2 v) { return __half22float2(v); }
//! dtype bf16: static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
static __device__ __forceinline__ elem2 narrow(float a, float b) { return __floats2half2_rn(a, b); }

static __global__ void __launch_bounds__(THREADS)
rope_kernel(const elem* x, const int* pos, const float* table, elem* y, unsigned T, unsigned H, unsigned D) {
  const unsigned per_head = D / 16, groups = (H + heads - 1) / heads;
  const unsigned item = blockIdx.x * THREADS + threadIdx.x;
  //! fault early_return_value compile: if (item >= T * groups * per_head) return 0;
  if (item >= T * groups * per_head) return;
  const unsigned col = item % per_head * 8, rest = item / per_head;
  const unsigned t = token_minor ? rest % T : rest / groups;
  //! fault group_not_scaled wrong when cdiv(H,heads)+heads-1<H: const unsigned h0 = token_minor ? rest / T : rest % groups;
  //! shows group_not_scaled: unwritten
  const unsigned h0 = (token_minor ? rest / T : rest % groups) * heads;
  const size_t base = ((size_t)t * H + h0) * D + col;
  uint4 lo[heads], hi[heads];
#pragma unroll
  for (int j = 0; j < heads; ++j) {
    //! fault whole_groups_only wrong when H%heads!=0: if (h0 + heads > H) break;
    //! shows whole_groups_only: unwritten
    if (h0 + j >= H) break;
    lo[j] = __ldcs((const uint4*)(x + base + (size_t)j * D));
    //! fault unbalanced_cast compile: hi[j] = __ldcs((const uint4*)(x + base + (size_t)j * D + D / 2);
    hi[j] = __ldcs((const uint4*)(x + base + (size_t)j * D + D / 2));
  }
  float c[8], s[8];
  //! fault position_is_token wrong when T<=8192: const float* row = table + (size_t)t * D + col;
  //! fault table_as_int compile: const int* row = table + (size_t)__ldg(pos + t) * D + col;
  const float* row = table + (size_t)__ldg(pos + t) * D + col;
#pragma unroll
  for (int k = 0; k < 8; k += 4) {
    *(float4*)&c[k] = __ldg((const float4*)(row + k));
    //! fault sine_region_offset wrong: *(float4*)&s[k] = __ldg((const float4*)(row + D / 4 + k));
    *(float4*)&s[k] = __ldg((const float4*)(row + D / 2 + k));
  }
#pragma unroll
  for (int j = 0; j < heads; ++j) {
    //! fault whole_groups_only wrong: if (h0 + heads > H) break;
    if (h0 + j >= H) break;
    uint4 a, b;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = widen(((const elem2*)&lo[j])[k]), g = widen(((const elem2*)&hi[j])[k]);
      //! fault angle_index compile: const float c0 = c[2 * i], c1 = c[2 * i + 1], s0 = s[2 * i], s1 = s[2 * i + 1];
      const float c0 = c[2 * k], c1 = c[2 * k + 1], s0 = s[2 * k], s1 = s[2 * k + 1];
      ((elem2*)&a)[k] = narrow(f.x * c0 - g.x * s0, f.y * c1 - g.y * s1);
      //! fault second_half_sign wrong: ((elem2*)&b)[k] = narrow(g.x * c0 - f.x * s0, g.y * c1 - f.y * s1);
      ((elem2*)&b)[k] = narrow(g.x * c0 + f.x * s0, g.y * c1 + f.y * s1);
    }
    __stcs((uint4*)(y + base + (size_t)j * D), a);
    __stcs((uint4*)(y + base + (size_t)j * D + D / 2), b);
  }
}

extern "C" cudaError_t rope(const elem* x, const int* pos, const float* table, elem* y, int T, int H, int D,
                            void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const size_t items = (size_t)T * ((H + heads - 1) / heads) * (D / 16);
  if (D % 16 != 0 || items + THREADS > 4294967295u) return cudaErrorNotSupported;
  rope_kernel<<<(unsigned)((items + THREADS - 1) / THREADS), THREADS, 0, stream>>>(x, pos, table, y, T, H, D);
  return cudaGetLastError();
}

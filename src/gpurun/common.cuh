// What the ops' check_<problem>.cu files share: the generator, typed access, fills, and the error tests of
// the ops' definitions. Implemented in common.cu where it is not a template.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <vector>

#include "gpurun/error.cuh"
#include "gpurun/ops.cuh"
#include "gpurun/protocol.h"

namespace gpurun {

// --- generator: bit-identical here and in cref.c --------------------------------------------------------------

/// splitmix64(seed ^ (tensor << 56) ^ index).
__host__ __device__ inline uint64_t gen_hash(uint64_t seed, int tensor, uint64_t index) {
  uint64_t x = (seed ^ ((uint64_t)tensor << 56) ^ index) + 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// One rounding per operation, whatever the compiler would like to contract.
__host__ __device__ inline float gen_mul(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
__host__ __device__ inline float gen_add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

/// Sum of the four 16-bit words, centred and scaled: mean 0, variance 1, |n| <= 3.47.
__host__ __device__ inline float gen_normal(uint64_t h) {
  int s = (int)(h & 0xFFFF) + (int)(h >> 16 & 0xFFFF) + (int)(h >> 32 & 0xFFFF) + (int)(h >> 48);
  return gen_mul((float)(s - 131070), 2.6428997e-5f);
}

/// [0, 1) from the top 24 bits, exact in fp32.
__host__ __device__ inline float gen_unit(uint64_t h) { return (float)(h >> 40) * 0x1p-24f; }

/// U[a, b): may round up to b.
__host__ __device__ inline float gen_uniform(uint64_t h, float a, float b) {
  return gen_add(a, gen_mul(gen_unit(h), b - a));
}

/// 0 … n-1 from the top 32 bits.
__host__ __device__ inline uint32_t gen_below(uint64_t h, uint32_t n) { return (uint32_t)((h >> 32) * n >> 32); }

// --- elements -------------------------------------------------------------------------------------------------

__host__ __device__ inline int elem_bytes(Elem e) {
  return e == E_F32 || e == E_I32 ? 4 : e == E_F16 || e == E_BF16 ? 2 : 1;
}
__host__ __device__ inline bool elem_is_float(Elem e) { return e <= E_E4M3; }

/// The element type of a dtype's tensors where they are all alike (fp32, fp16, bf16).
__host__ __device__ inline Elem dtype_elem(Dtype d) { return d == FP32 ? E_F32 : d == BF16 ? E_BF16 : E_F16; }
/// Unit round-off of an output type: the ops' definitions, error test.
__host__ __device__ inline double round_off(Elem e) { return e == E_F16 ? 0x1p-11 : e == E_BF16 ? 0x1p-8 : 0x1p-24; }

/// Element i as double; packed int4 stays bytes (E_U8).
__host__ __device__ inline double load_elem(const void* p, Elem e, int64_t i) {
  switch (e) {
    case E_F32: return ((const float*)p)[i];
    case E_F16: return __half2float(((const __half*)p)[i]);
    case E_BF16: return __bfloat162float(((const __nv_bfloat16*)p)[i]);
    case E_E4M3: return (float)((const __nv_fp8_e4m3*)p)[i];
    case E_I8: return ((const int8_t*)p)[i];
    case E_U8: return ((const uint8_t*)p)[i];
    default: return ((const int32_t*)p)[i];
  }
}

/// Rounds to nearest even (e4m3: saturating) and stores; integers must be whole and below 2^24.
__host__ __device__ inline void store_elem(void* p, Elem e, int64_t i, float x) {
  switch (e) {
    case E_F32: ((float*)p)[i] = x; break;
    case E_F16: ((__half*)p)[i] = __float2half_rn(x); break;
    case E_BF16: ((__nv_bfloat16*)p)[i] = __float2bfloat16_rn(x); break;
    case E_E4M3: ((__nv_fp8_e4m3*)p)[i] = __nv_fp8_e4m3(x); break;
    case E_I8: ((int8_t*)p)[i] = (int8_t)x; break;
    case E_U8: ((uint8_t*)p)[i] = (uint8_t)x; break;
    default: ((int32_t*)p)[i] = (int32_t)x; break;
  }
}

/// Element i as it lies in memory.
__host__ __device__ inline uint32_t load_bits(const void* p, Elem e, int64_t i) {
  int w = elem_bytes(e);
  return w == 4 ? ((const uint32_t*)p)[i] : w == 2 ? ((const uint16_t*)p)[i] : ((const uint8_t*)p)[i];
}
__host__ __device__ inline void store_bits(void* p, Elem e, int64_t i, uint32_t bits) {
  int w = elem_bytes(e);
  if (w == 4) ((uint32_t*)p)[i] = bits;
  else if (w == 2) ((uint16_t*)p)[i] = (uint16_t)bits;
  else ((uint8_t*)p)[i] = (uint8_t)bits;
}

/// What an output element holds before a run: a NaN that no arithmetic makes, or an integer that no op gives.
__host__ __device__ inline uint32_t poison_bits(Elem e) {
  switch (e) {
    case E_F32: return 0x7FF17FF1u;
    case E_F16:
    case E_BF16: return 0x7FF1u;
    case E_E4M3: return 0x7Fu;
    case E_I32: return 0x80000001u;
    default: return 0x81u;
  }
}

// --- fills ----------------------------------------------------------------------------------------------------

/// Blocks of 256 threads for a grid-stride loop over n items, enough to fill any GPU.
inline int grid_for(int64_t n) {
  int64_t blocks = (n + 1023) / 1024;
  return (int)(blocks < 1 ? 1 : blocks > 2048 ? 2048 : blocks);
}

template <class F>
__global__ void fill_kernel(void* p, Elem e, int64_t n, F f) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
    store_elem(p, e, i, f(i));
}

/// p[i] = f(i) for i in [0, n): f is a device functor (a struct with __device__ float operator()(int64_t) const).
template <class F>
void fill_with(void* p, Elem e, int64_t n, F f, cudaStream_t s) {
  fill_kernel<<<grid_for(n), 256, 0, s>>>(p, e, n, f);
  check_launch("fill");
}

/// mean + n(sigma): sigma a power of two.
struct Normal {
  uint64_t seed;
  int tensor;
  float sigma, mean;
  __device__ float operator()(int64_t i) const {
    return gen_add(mean, gen_mul(sigma, gen_normal(gen_hash(seed, tensor, (uint64_t)i))));
  }
};

// --- the rotary table and positions that rope and fused_qkv_rope share -----------------

constexpr int64_t kRopePositions = 8192;
/// table[8192][D]: row p holds D/2 cosines, then D/2 sines, of p * 10000^(-2i/D), made in double.
void fill_rope_table(float* table, int64_t d, cudaStream_t s);

// --- error tests ----------------------------------------------------------------------------------------------

/// T(a, n) of the ops' definitions: |y - r| <= element_rel * u * |r| + a * u * rms(r over the row) + 2^-24 for every
/// element, ||y - r|| <= n * u * ||r|| over the tensor. u is the output type's round-off (round_off()). Ops with a
/// bound of their own choose a and n so that a * u and n * u are it.
struct Tolerance {
  double u, a, n;
  double element_rel;  // 2 unless an op says otherwise
  bool element_only;   // no norm test
};
inline Tolerance tolerance(Elem out, double a, double n) { return {round_off(out), a, n, 2, false}; }

/// Compares y (count elements of type e) with r (doubles); `row` is the length of an error row and divides count.
/// Synchronises. `scratch` has judge_bytes() bytes. `what` names the tensor in the verdict's text. Reasons in order:
/// RUN_NONFINITE, RUN_UNWRITTEN (poison is left), RUN_MISMATCH, RUN_LOW_PRECISION. max_rel is the worst
/// |y - r| / (|r| + rms over the row).
Verdict judge_tolerance(const void* y, Elem e, const double* r, int64_t count, int64_t row, Tolerance t,
                        const char* what, void* scratch, cudaStream_t s);
/// Bitwise: y against want, both of `count` elements and aligned to 16 bytes. Reasons in order: RUN_NONFINITE (where
/// want is finite), RUN_UNWRITTEN (poison where want holds something else), RUN_MISMATCH. For an inout buffer, which
/// may hold any bits before a run, `poisoned` is false and each difference a mismatch. Synchronises.
Verdict judge_bits(const void* y, const void* want, int64_t count, Elem e, const char* what, void* scratch,
                   cudaStream_t s, bool poisoned = true);
/// Scratch of the two above for so many error rows; never more than kScratchBytes.
size_t judge_bytes(int64_t rows);
/// Verdict of a pass with no errors, to start from.
inline Verdict pass() { return Verdict{0, 0, 0, ""}; }
/// A verdict by hand.
__attribute__((format(printf, 2, 3))) Verdict fail(int reason, const char* fmt, ...);
/// Of two verdicts that whose reason comes first in the judging order, with the larger errors of both.
Verdict both(const Verdict& a, const Verdict& b);

/// Outputs before each run: poison_bits() in every element.
void poison(void* p, Elem e, int64_t count, cudaStream_t s);

// --- for certify and answer -------------------------------------------------------------------------------------

/// out[i] = ref[i] rounded to e, to nearest even.
void round_reference(void* out, Elem e, const double* ref, int64_t count, cudaStream_t s);
/// Buffer i of a host instance as doubles, decoded by cref.c, independently of load_elem.
std::vector<double> widen(const Instance& host, int i);
/// Largest |got - want| / (|want| + rms(want)); infinite where one of them is not finite.
double certify_error(const double* got, const double* want, int64_t count);

}  // namespace gpurun

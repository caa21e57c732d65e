/*
 * gemm.c - c = a * b^T with both operands K-major: fp16, int8 with row and
 * column scales, fp8 (e4m3) with one scale per tensor.
 */
#include <math.h>
#include <stddef.h>

#include "ops/op.h"

enum { M, N, K };

/* The first rows of each table are those that verification uses; the rest are
 * (N, K) of the models' projections times tokens. */
static const int64_t shapes16[][OP_MAX_AXES] = {
	{ 1, 4096, 4096 },     { 16, 4096, 4096 },    { 128, 4096, 4096 },
	{ 2048, 4096, 4096 },  { 4096, 14336, 4096 }, { 8192, 8192, 8192 },
	{ 512, 4096, 14336 },  { 300, 4544, 18176 }, /* Falcon-7B: N is no multiple of 128 */
	{ 77, 1600, 6400 },                          /* GPT-2 XL */
	{ 33, 2880, 2880 },                          /* GPT-OSS-20B */
	{ 1, 28672, 4096 },                          /* Llama-3-8B, gate and up */
	{ 4, 6144, 4096 },                           /* Llama-3-8B, q, k and v */
	{ 1024, 4096, 14336 },                       /* Llama-3-8B, down */
	{ 1, 8192, 28672 },                          /* Llama-3-70B */
	{ 64, 10240, 8192 },   { 4096, 8192, 8192 },  { 16, 18432, 16384 }, /* Llama-3.1-405B */
	{ 2048, 15360, 5120 },                                              /* Llama-2-13B */
	{ 333, 5120, 13824 },  { 1000, 11264, 2048 },                       /* TinyLlama-1.1B */
	{ 16384, 2048, 5632 }, { 128, 1152, 896 },                          /* Qwen2.5-0.5B */
	{ 512, 896, 4864 },    { 4, 37888, 3584 },                          /* Qwen2.5-7B */
	{ 64, 3584, 18944 },   { 1024, 10240, 5120 },                       /* Qwen3-32B */
	{ 77, 8192, 3584 },                                                 /* Gemma-2-9B */
	{ 4096, 3584, 14336 }, { 333, 9216, 3072 },                         /* Phi-3-mini */
	{ 1, 5120, 2880 },                                                  /* GPT-OSS-20B */
	{ 1000, 2880, 4096 },  { 128, 4672, 4544 },                         /* Falcon-7B */
	{ 2048, 7168, 2048 },                                               /* DeepSeek-V3 expert */
};

static const int64_t shapes8i[][OP_MAX_AXES] = {
	{ 128, 4096, 4096 },   { 2048, 4096, 4096 },  { 4096, 14336, 4096 },
	{ 8192, 8192, 8192 },  { 512, 4096, 14336 },  { 300, 4544, 18176 },
	{ 77, 1600, 6400 },    { 33, 2880, 2880 },    { 32, 4096, 4096 },
	{ 1000, 11008, 4096 }, { 17, 18944, 3584 },   { 64, 28672, 4096 }, /* Llama-3-8B */
	{ 1024, 6144, 4096 },  { 64, 8192, 28672 },                        /* Llama-3-70B */
	{ 2048, 10240, 8192 }, { 128, 16384, 16384 },                      /* Llama-3.1-405B */
	{ 64, 16384, 53248 },  { 333, 15360, 5120 },                       /* Llama-2-13B */
	{ 4096, 5120, 13824 }, { 16384, 2560, 2048 },                      /* TinyLlama-1.1B */
	{ 1000, 2048, 5632 },  { 512, 9728, 896 },                         /* Qwen2.5-0.5B */
	{ 64, 896, 4864 },     { 1024, 37888, 3584 },                      /* Qwen2.5-7B */
	{ 77, 3584, 18944 },   { 128, 5120, 25600 },                       /* Qwen3-32B */
	{ 333, 28672, 3584 },                                              /* Gemma-2-9B */
	{ 2048, 3072, 8192 },                                              /* Phi-3-mini */
	{ 64, 5760, 2880 },                                                /* GPT-OSS-20B */
	{ 1000, 4672, 4544 },                                              /* Falcon-7B */
};

static const int64_t shapes8f[][OP_MAX_AXES] = {
	{ 1, 4096, 4096 },     { 16, 4096, 4096 },     { 128, 4096, 4096 },  { 2048, 4096, 4096 },
	{ 4096, 14336, 4096 }, { 8192, 8192, 8192 },   { 512, 4096, 14336 }, { 300, 4544, 18176 },
	{ 77, 1600, 6400 },    { 33, 2880, 2880 },     { 64, 7168, 16384 }, /* DeepSeek-V3 */
	{ 4096, 7168, 2048 },  { 1024, 4096, 7168 },   { 16, 28672, 4096 }, /* Llama-3-8B */
	{ 333, 6144, 4096 },   { 1, 57344, 8192 },                          /* Llama-3-70B */
	{ 2048, 8192, 28672 }, { 64, 18432, 16384 },                        /* Llama-3.1-405B */
	{ 1000, 5120, 5120 },                                               /* Llama-2-13B */
	{ 4, 27648, 5120 },    { 16384, 11264, 2048 },                      /* TinyLlama-1.1B */
	{ 128, 9728, 896 },                                                 /* Qwen2.5-0.5B */
	{ 1024, 3584, 18944 },                                              /* Qwen2.5-7B */
	{ 77, 4608, 3584 },    { 512, 51200, 5120 },                        /* Qwen3-32B */
	{ 4096, 8192, 3584 },                                               /* Gemma-2-9B */
	{ 4, 3584, 14336 },    { 1000, 16384, 3072 },                       /* Phi-3-mini */
	{ 2048, 5760, 2880 },                                               /* GPT-OSS-20B */
	{ 64, 4544, 4544 },                                                 /* Falcon-7B */
};

#define LAYOUT                                                                                                         \
	"a[M,K] and b[N,K] are dense and row-major with K contiguous (the layout of a linear layer's weight), c[M,N] " \
	"is dense and row-major. "
#define CONTRACT                                                                                                           \
	"Any M >= 1 occurs, so that tiles hang over every edge: nothing outside the matrices may be read into the result " \
	"or written. Base pointers are aligned to 256 bytes. Partial sums of a K that is divided among blocks must be "    \
	"combined before the one rounding. The workspace is zero before the first call at a shape and otherwise as the "   \
	"last call left it; its size is what the optional function named after the launcher with _workspace appended "     \
	"returns for (M, N, K). The launcher enqueues on the stream given, neither allocates nor synchronises, and "       \
	"returns cudaErrorNotSupported before it enqueues anything for axes that it does not support."

static const char statement16[] =
	"Matrix product in fp16 with fp32 accumulation: c[m,n] = sum over k = 0..K-1 of a[m,k] * b[n,k], summed in fp32 "
	"and rounded once to fp16. " LAYOUT
	"No bias, no scale. K and N are multiples of 8, K <= 32768. Partial sums may pass the range of fp16 although the "
	"result does not. " CONTRACT;

static const char statement8i[] =
	"Matrix product of int8 with scales per row and column: s[m,n] = sum over k = 0..K-1 of a[m,k] * b[n,k] as an "
	"exact int32, c[m,n] = fp16((float)s[m,n] * sa[m] * sb[n]). Inputs: a[M,K], b[N,K] signed int8; sa[M], sb[N] fp32; "
	"output: c[M,N] fp16. " LAYOUT
	"Symmetric quantisation: no zero points, no bias. K is a multiple of 16, N of 8, K <= 131072, so that the sum "
	"stays within int32; it may pass 2^24. " CONTRACT;

static const char statement8f[] =
	"Matrix product of fp8 (e4m3, largest value 448) with one scale per tensor: c[m,n] = fp16(sum over k = 0..K-1 of "
	"a[m,k] * b[n,k] * sa[0] * sb[0]). Inputs: a[M,K], b[N,K] e4m3 without NaN; sa[1], sb[1] fp32 in device memory; "
	"output: c[M,N] fp16. " LAYOUT
	"The sum is kept in fp32 or in the tensor core's own accumulator, never in fp16, whose range the raw sums pass. "
	"K is a multiple of 16, N of 8. With u = 2^-11 an element may deviate by 2u|r| + 3 2^-12 sqrt(K) rms(r) and "
	"the whole by u + 2^-14 sqrt(K) in norm, as fp8 tensor cores keep some 14 bits of the running sum; the tolerance "
	"given is that of K = 16384. " CONTRACT;

static const char *signature16(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "extern \"C\" cudaError_t gemm_fp16(const __half *a, const __half *b, __half *c, int M, int N, int K, "
	       "void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static const char *signature8i(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "extern \"C\" cudaError_t int8_gemm(const int8_t *a, const int8_t *b, const float *sa, const float *sb, "
	       "__half *c, int M, int N, int K, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static const char *signature8f(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "extern \"C\" cudaError_t fp8_gemm(const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b, const float *sa, "
	       "const float *sb, __half *c, int M, int N, int K, void *workspace, size_t workspace_bytes, "
	       "cudaStream_t stream)";
}

/* c is fp16 for all three. */
static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 2 * v[M] * v[N];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	int64_t scales = dtype == DT_INT8 ? 4 * (v[M] + v[N]) : dtype == DT_FP8 ? 8 : 0;

	return dtype_bytes(dtype) * v[K] * (v[M] + v[N]) + scales + bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 2 * v[M] * v[N] * v[K];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	if (v[N] % 8)
		return "N is no multiple of 8";
	if (dtype == DT_FP16)
		return v[K] % 8 ? "K is no multiple of 8" : v[K] > 32768 ? "K exceeds 32768" : NULL;
	if (v[K] % 16)
		return "K is no multiple of 16";
	if (dtype == DT_INT8 && v[K] > 131072)
		return "K exceeds 131072";
	return NULL;
}

/* Hopper's fp8 pipe keeps about 14 bits of the running sum and truncates, so
 * the bound grows with K. On an H200 torch's fast accumulation reaches 2.03 x
 * 2^-13 sqrt(K) rho by elements and 3.1e-3 by the norm at K = 16384. The norm's
 * bound, 2^-11 + 2^-14 sqrt(K), leaves the library half of it. The elements' has
 * to cover the tail: of the 67 million of an 8192 x 8192 product one passed
 * 2^-11 sqrt(K) (K = 8192, wgmma), so it is half as much again. */
static void tolerance8f(const int64_t *v, double *element, double *norm)
{
	*element = 1.5 * sqrt((double)v[K]);
	*norm = 1 + sqrt((double)v[K]) / 8;
}

const struct op ops_gemm[] = {
	{
		.name = "gemm_fp16",
		.problem = "gemm",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16 },
		.n_dtypes = 1,
		.axes = { "M", "N", "K" },
		.n_axes = 3,
		.shapes = shapes16,
		.n_shapes = sizeof(shapes16) / sizeof(shapes16[0]),
		.statement = statement16,
		.signature = signature16,
		.tol_element = 0.5,
		.tol_norm = 0.75,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_TENSOR16,
		.footprint = bytes,
		.illegal = illegal,
	},
	{
		.name = "int8_gemm",
		.problem = "gemm",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_INT8 },
		.n_dtypes = 1,
		.axes = { "M", "N", "K" },
		.n_axes = 3,
		.shapes = shapes8i,
		.n_shapes = sizeof(shapes8i) / sizeof(shapes8i[0]),
		.statement = statement8i,
		.signature = signature8i,
		.tol_element = 0,
		.tol_norm = 0.5,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_TENSOR8I,
		.footprint = bytes,
		.illegal = illegal,
	},
	{
		.name = "fp8_gemm",
		.problem = "gemm",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP8 },
		.n_dtypes = 1,
		.axes = { "M", "N", "K" },
		.n_axes = 3,
		.shapes = shapes8f,
		.n_shapes = sizeof(shapes8f) / sizeof(shapes8f[0]),
		.statement = statement8f,
		.signature = signature8f,
		.tolerance = tolerance8f,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_TENSOR8F,
		.footprint = bytes,
		.illegal = illegal,
	},
	{ .name = NULL },
};

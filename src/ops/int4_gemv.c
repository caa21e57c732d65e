/*
 * int4_gemv.c - a few rows of x times a weight matrix of 4-bit values with
 * group scales.
 */
#include <stddef.h>

#include "ops/op.h"

enum { M, N, K, G };

/* The first eight are those that verification uses; the rest are projections
 * of models in use times small batches. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 4096, 4096, 128 },   { 1, 28672, 8192, 128 }, /* Llama-3-70B */
	{ 1, 53248, 16384, 128 },                          /* Llama-3.1-405B */
	{ 4, 14336, 4096, 128 },  { 16, 18944, 3584, 64 }, /* Qwen2.5-7B */
	{ 1, 2880, 2880, 32 },                           /* GPT-OSS-20B: K is no multiple of 128 */
	{ 8, 6144, 4096, 128 },   { 2, 1000, 1056, 32 }, /* odd */
	{ 1, 6144, 4096, 128 },                          /* Llama-3-8B */
	{ 1, 28672, 4096, 128 },  { 16, 28672, 4096, 64 },
	{ 1, 4096, 14336, 128 },  { 4, 4096, 4096, 64 },
	{ 1, 10240, 8192, 128 }, /* Llama-3-70B */
	{ 4, 57344, 8192, 128 },  { 16, 8192, 8192, 64 },
	{ 1, 8192, 28672, 128 },  { 4, 18432, 16384, 128 }, /* Llama-3.1-405B */
	{ 1, 16384, 53248, 128 }, { 1, 15360, 5120, 128 },  /* Llama-2-13B */
	{ 4, 5120, 13824, 128 },  { 16, 27648, 5120, 32 },
	{ 1, 2560, 2048, 64 },                           /* TinyLlama-1.1B */
	{ 16, 11264, 2048, 32 },  { 1, 1152, 896, 128 }, /* Qwen2.5-0.5B */
	{ 4, 9728, 896, 64 },     { 1, 896, 4864, 128 },
	{ 1, 4608, 3584, 128 }, /* Qwen2.5-7B */
	{ 4, 37888, 3584, 64 },   { 1, 3584, 18944, 128 },
	{ 1, 51200, 5120, 128 },                          /* Qwen3-32B */
	{ 8, 8192, 3584, 128 },                           /* Gemma-2-9B */
	{ 16, 3584, 14336, 128 }, { 4, 16384, 3072, 32 }, /* Phi-3-mini */
	{ 4, 5120, 2880, 64 },                            /* GPT-OSS-20B */
	{ 1, 4672, 4544, 64 },                            /* Falcon-7B: K is no multiple of 128 */
	{ 4, 4544, 18176, 128 },
};

static const char statement[] =
	"Multiply M rows of x by a 4-bit weight matrix with a scale per group of G values of k: y[m,n] = sum over k of "
	"x[m,k] * value(n,k) * s[n,k/G]. Inputs: x[M,K], fp16; w[N,K/2], uint8, where the low nibble of byte j of row n "
	"belongs to k = 2j and the high nibble to k = 2j+1; s[N,K/G], fp16. Output: y[M,N], fp16. dtype int4: value(n,k) = "
	"q - 8 with q = 0 ... 15 the nibble. dtype fp4: the nibble is e2m1, that is its low three bits select 0, 0.5, 1, "
	"1.5, 2, 3, 4, 6 and its top bit is the sign; there is no offset. All arrays are dense and row-major, their bases "
	"are aligned to 256 bytes, and every row of x and w is a multiple of 16 bytes. 1 <= M <= 16, G is 32, 64 or 128, K "
	"is a multiple of 32 and of G, N is a multiple of 8. The packing is given: the weights may not be repacked ahead "
	"of the call. Weights may be converted to fp16 and up to eight products may be added in half precision; beyond "
	"that the sums are fp32, as a sum over all of K in half is too coarse and may overflow. x may have a mean far from "
	"zero, and the weights may be of one sign over half of K.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "extern \"C\" cudaError_t int4_gemv(const __half *x, const uint8_t *w, const __half *s, __half *y, int M, "
	       "int N, int K, int G, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 2 * v[M] * v[N];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return v[N] * v[K] / 2 + 2 * v[N] * (v[K] / v[G]) + 2 * v[M] * v[K] + bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 2 * v[M] * v[N] * v[K];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[M] > 16)
		return "M is greater than 16";
	if (v[G] != 32 && v[G] != 64 && v[G] != 128)
		return "G is none of 32, 64, 128";
	if (v[K] % 32 != 0)
		return "K is no multiple of 32";
	if (v[K] % v[G] != 0)
		return "K is no multiple of G";
	if (v[N] % 8 != 0)
		return "N is no multiple of 8";
	return NULL;
}

const struct op ops_int4_gemv[] = {
	{
		.name = "int4_gemv",
		.problem = "int4_gemv",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_INT4, DT_FP4 },
		.n_dtypes = 2,
		.axes = { "M", "N", "K", "G" },
		.n_axes = 4,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 6,
		.tol_norm = 1.5,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_TENSOR16,
		.footprint = bytes,
		.illegal = illegal,
	},
	{ .name = NULL },
};

/*
 * rmsnorm.c - y = x * rsqrt(mean(x^2) + eps) * w over each row, as a CUDA and
 * as a Triton kernel.
 */
#include <stddef.h>

#include "ops/op.h"

enum { T, D };

/* The first ten are those that verification uses; the rest are the widths of
 * models, or of their query and key heads, times tokens. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 4096 },     { 64, 4096 },    { 4096, 8192 },
	{ 65536, 4096 }, { 16384, 2880 },               /* GPT-OSS-20B */
	{ 512, 896 },                                   /* Qwen2.5-0.5B */
	{ 2048, 7168 },                                 /* DeepSeek-V3 */
	{ 524288, 128 },                                /* heads of Qwen3: rows of 256 bytes */
	{ 128, 16384 },                                 /* Llama-3.1-405B */
	{ 777, 4544 },                                  /* Falcon-7B */
	{ 1024, 4096 },                                 /* Llama-3-8B */
	{ 8192, 4096 },                                 /* Mistral-7B */
	{ 1, 8192 },                                    /* Llama-3-70B */
	{ 16, 8192 },    { 16384, 8192 }, { 1, 16384 }, /* Llama-3.1-405B */
	{ 4096, 16384 }, { 333, 5120 },                 /* Llama-2-13B */
	{ 8192, 5120 },  { 4, 5120 },                   /* Qwen3-32B */
	{ 77, 2048 },                                   /* TinyLlama-1.1B */
	{ 16384, 2048 }, { 65536, 2048 },               /* Qwen3-30B-A3B */
	{ 16384, 896 },                                 /* Qwen2.5-0.5B */
	{ 128, 3584 },                                  /* Qwen2.5-7B */
	{ 4096, 3584 },                                 /* Gemma-2-9B */
	{ 1000, 3072 },                                 /* Phi-3-mini */
	{ 16384, 3072 }, { 64, 2880 },                  /* GPT-OSS-20B */
	{ 4, 7168 },                                    /* DeepSeek-V3 */
	{ 65536, 7168 }, { 16384, 4544 },               /* Falcon-7B */
	{ 131072, 64 },                                 /* heads of Qwen2.5-0.5B */
	{ 4096, 128 },                                  /* heads of Qwen3, few tokens */
	{ 512, 65536 },                                 /* the widest row */
	{ 1000, 1600 },                                 /* GPT-2 XL */
};

#define MATHEMATICS                                                                                                     \
	"Root-mean-square norm of each row. Inputs: x[T,D] and the weight w[D]; the float eps (1e-6). Output: y[T,D]. " \
	"All three are dense, row-major, of one type, fp16 or bf16, and do not overlap; each base is aligned to 256 "   \
	"bytes and D is a multiple of 8, so each row begins at a multiple of 16 bytes. For row t:\n"                    \
	"  m = (sum over d of x[t,d]^2) / D\n"                                                                          \
	"  y[t,d] = x[t,d] / sqrt(m + eps) * w[d]\n"                                                                    \
	"Squares, sum and root are in fp32 (a square may exceed what fp16 holds); the normalised value may be rounded " \
	"to the type before the weight is applied, and y is rounded to nearest even. The weight multiplies as it is "   \
	"(not 1 + w); there is no residual and no bias. eps counts: rows may have a mean square near it, and a row of " \
	"zeros gives zeros. 64 <= D <= 65536; D need be no power of two and T no multiple of anything. Every element "  \
	"of y is written, x and w are not. "

static const char statement[] = MATHEMATICS
	"Workspace is zero before the first call at a shape; later calls find what the last one left.";

static const char triton_statement[] = MATHEMATICS
	"The module defines launch, which writes into y and returns 0, or 801 before it has launched anything when "
	"the axes are not supported. workspace is a one-dimensional uint8 tensor of workspace_bytes elements, empty "
	"unless the module defines triton_rmsnorm_workspace(T, D).";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t rmsnorm(const __nv_bfloat16 *x, const __nv_bfloat16 *w, "
		       "__nv_bfloat16 *y, int T, int D, float eps, void *workspace, size_t workspace_bytes, "
		       "cudaStream_t stream)";
	return "extern \"C\" cudaError_t rmsnorm(const __half *x, const __half *w, __half *y, int T, int D, float eps, "
	       "void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static const char *triton_signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "def launch(x, w, y, T, D, eps, workspace, workspace_bytes)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[T] * v[D];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return 2 * bytes_out(v, dtype) + dtype_bytes(dtype) * v[D];
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 4 * v[T] * v[D];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[D] % 8 != 0)
		return "D is no multiple of 8";
	if (v[D] < 64 || v[D] > 65536)
		return "D is not between 64 and 65536";
	return NULL;
}

const struct op ops_rmsnorm[] = {
	{
		.name = "rmsnorm",
		.problem = "rmsnorm",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "T", "D" },
		.n_axes = 2,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 0.1,
		.tol_norm = 0.9,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_FP32,
		.footprint = bytes,
		.illegal = illegal,
	},
	{
		.name = "triton_rmsnorm",
		.problem = "rmsnorm",
		.impls = 1u << IMPL_TRITON,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "T", "D" },
		.n_axes = 2,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = triton_statement,
		.signature = triton_signature,
		.tol_element = 0.1,
		.tol_norm = 0.9,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_FP32,
		.footprint = bytes,
		.illegal = illegal,
	},
	{ .name = NULL },
};

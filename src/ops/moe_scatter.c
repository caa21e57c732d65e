/*
 * moe_scatter.c - sort tokens by expert and copy their rows.
 */
#include <stddef.h>

#include "ops/op.h"

enum { T, E, K, D };

/* The first eight are those that verification uses; the rest are models in
 * use times tokens. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 64, 8, 2, 4096 },                              /* Mixtral-8x7B */
	{ 1024, 8, 2, 4096 },    { 4096, 128, 8, 2048 }, /* Qwen3-30B-A3B */
	{ 16384, 256, 8, 7168 },                         /* DeepSeek-V3 */
	{ 1, 256, 8, 7168 },     { 2048, 32, 4, 2880 },  /* GPT-OSS-20B */
	{ 777, 64, 6, 2048 },                            /* DeepSeek-V2-Lite, odd */
	{ 512, 16, 1, 5120 },                            /* Llama-4-Scout */
	{ 1, 8, 2, 4096 },                               /* Mixtral-8x7B */
	{ 16, 8, 2, 4096 },      { 333, 8, 2, 4096 },    { 4096, 8, 2, 4096 },
	{ 16384, 8, 2, 4096 },   { 1, 128, 8, 2048 }, /* Qwen3-30B-A3B */
	{ 16, 128, 8, 2048 },    { 77, 128, 8, 2048 },   { 512, 128, 8, 2048 },
	{ 16384, 128, 8, 2048 }, { 16, 256, 8, 7168 }, /* DeepSeek-V3 */
	{ 128, 256, 8, 7168 },   { 1000, 256, 8, 7168 }, { 4096, 256, 8, 7168 },
	{ 1, 32, 4, 2880 }, /* GPT-OSS-20B */
	{ 64, 32, 4, 2880 },     { 333, 32, 4, 2880 },   { 8192, 32, 4, 2880 },
	{ 64, 128, 4, 2880 },                            /* GPT-OSS-120B */
	{ 4096, 128, 4, 2880 },  { 16, 64, 6, 2048 },    /* DeepSeek-V2-Lite */
	{ 8192, 64, 6, 2048 },   { 128, 16, 1, 5120 },   /* Llama-4-Scout */
	{ 8192, 16, 1, 5120 },   { 2048, 128, 1, 5120 }, /* Llama-4-Maverick */
	{ 512, 8, 2, 6144 },                             /* Mixtral-8x22B */
	{ 4096, 8, 2, 6144 },
};

static const char statement[] =
	"Sort tokens by expert and copy their rows. Inputs: x[T,D]; ids[T,K], int32 in [0,E), distinct within a token. "
	"Outputs: y[T*K,D], of x's type; offsets[E+1], int32; pos[T,K], int32. offsets is the exclusive prefix sum of the "
	"experts' counts of assignments, so offsets[0] = 0 and offsets[E] = T*K. pos is a permutation of 0 ... T*K-1 with "
	"offsets[e] <= pos[t,k] < offsets[e+1] for e = ids[t,k], and y[pos[t,k],:] = x[t,:] bit for bit. The order within "
	"an expert is free and may differ from run to run, so atomics are allowed. No weights are applied. All arrays are "
	"dense and row-major, their bases are aligned to 256 bytes, and a row of D values is a multiple of 16 bytes. E <= "
	"512, K <= E. The experts may be used evenly, by a power law with some left empty (their offsets are equal), or "
	"all tokens may go to the last K experts. Every element of every output is written. The workspace is zero at the "
	"first call of a shape and afterwards as the last call left it: counters are to be reset by the call itself.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t moe_scatter(const __nv_bfloat16 *x, const int *ids, __nv_bfloat16 *y, "
		       "int *offsets, int *pos, int T, int E, int K, int D, void *workspace, size_t workspace_bytes, "
		       "cudaStream_t stream)";
	return "extern \"C\" cudaError_t moe_scatter(const __half *x, const int *ids, __half *y, int *offsets, int *pos, "
	       "int T, int E, int K, int D, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[T] * v[K] * v[D] + 4 * (v[T] * v[K] + v[E] + 1);
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[T] * v[D] + 4 * v[T] * v[K] + bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)v;
	(void)dtype;
	return 0;
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	if (v[E] > 512)
		return "E is greater than 512";
	if (v[K] > v[E])
		return "K is greater than E";
	if (v[D] * dtype_bytes(dtype) % 16 != 0)
		return "a row is no multiple of 16 bytes";
	return NULL;
}

const struct op ops_moe_scatter[] = {
	{
		.name = "moe_scatter",
		.problem = "moe_scatter",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "T", "E", "K", "D" },
		.n_axes = 4,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 0,
		.tol_norm = 0,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_FP32,
		.footprint = bytes,
		.illegal = illegal,
	},
	{ .name = NULL },
};

/*
 * fused_qkv_rope.c - the projection to queries, keys and values with rotary
 * embedding of queries and keys.
 */
#include <stddef.h>

#include "ops/op.h"

enum { T, H, HKV, D, E };

/* The first eight are those that verification uses; the rest are models in
 * use times tokens. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 32, 8, 128, 4096 }, /* Llama-3-8B */
	{ 16, 32, 8, 128, 4096 },   { 2048, 32, 8, 128, 4096 },
	{ 8192, 64, 8, 128, 8192 }, /* Llama-3-70B */
	{ 64, 28, 4, 128, 3584 },   /* Qwen2.5-7B */
	{ 512, 16, 8, 256, 3584 },  /* Gemma-2-9B */
	{ 300, 32, 32, 96, 3072 },  /* Phi-3-mini, odd T */
	{ 128, 64, 8, 64, 2880 },   /* GPT-OSS-20B */
	{ 128, 32, 8, 128, 4096 },  /* Llama-3-8B */
	{ 1000, 32, 8, 128, 4096 }, { 8192, 32, 8, 128, 4096 },
	{ 1, 64, 8, 128, 8192 }, /* Llama-3-70B */
	{ 77, 64, 8, 128, 8192 },   { 1024, 64, 8, 128, 8192 },
	{ 1, 128, 8, 128, 16384 },                             /* Llama-3.1-405B */
	{ 64, 128, 8, 128, 16384 }, { 16, 40, 40, 128, 5120 }, /* Llama-2-13B */
	{ 333, 40, 40, 128, 5120 }, { 4096, 40, 40, 128, 5120 },
	{ 1, 32, 4, 64, 2048 }, /* TinyLlama-1.1B */
	{ 128, 32, 4, 64, 2048 },   { 4096, 32, 4, 64, 2048 },
	{ 4, 14, 2, 64, 896 }, /* Qwen2.5-0.5B */
	{ 512, 14, 2, 64, 896 },    { 16384, 14, 2, 64, 896 },
	{ 1, 28, 4, 128, 3584 },                              /* Qwen2.5-7B */
	{ 1000, 28, 4, 128, 3584 }, { 64, 32, 4, 128, 2048 }, /* Qwen3-30B-A3B */
	{ 4096, 32, 4, 128, 2048 }, { 4, 64, 8, 128, 5120 },  /* Qwen3-32B */
	{ 2048, 64, 8, 128, 5120 }, { 1, 16, 8, 256, 3584 },  /* Gemma-2-9B */
	{ 333, 16, 8, 256, 3584 },  { 1, 32, 32, 96, 3072 },  /* Phi-3-mini */
	{ 4096, 32, 32, 96, 3072 }, { 1, 64, 8, 64, 2880 },   /* GPT-OSS-20B */
	{ 1024, 64, 8, 64, 2880 },  { 16, 71, 1, 64, 4544 },  /* Falcon-7B */
	{ 2048, 71, 1, 64, 4544 },
};

static const char statement[] =
	"Project hidden states to queries, keys and values and rotate queries and keys. Inputs: x[T,E]; w[(H+2*HKV)*D,E], "
	"row-major with E contiguous (the layout of a linear layer's weight); pos[T], int32 in [0,8192); table[8192,D], "
	"fp32, whose row p holds D/2 cosines and then D/2 sines of p * 10000^(-2i/D), i = 0 ... D/2-1. Outputs: q[T,H,D], "
	"k[T,HKV,D], v[T,HKV,D]. x, w, q, k and v are of the row's dtype. Let a = x * w^T, summed in fp32. The first H*D "
	"columns of a are q, the next HKV*D are k, the last HKV*D are v. Each head of q and k is rotated with c_i, s_i from "
	"row pos[t] of the table: out_i = a_i * c_i - a_(i+D/2) * s_i and out_(i+D/2) = a_(i+D/2) * c_i + a_i * s_i for i < "
	"D/2 (columns i and i + D/2 form a pair). v is not rotated. The rotation is applied to the fp32 sums; rounding "
	"them to the dtype first is tolerated, a sum in half precision is not. No bias, no norm, no cache. All arrays are "
	"dense, their bases are aligned to 256 bytes, E is a multiple of 8 and D a multiple of 16. T may be any number, "
	"positions may be in any order and repeat, and their values do not follow t.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t fused_qkv_rope(const __nv_bfloat16 *x, const __nv_bfloat16 *w, const int "
		       "*pos, const float *table, __nv_bfloat16 *q, __nv_bfloat16 *k, __nv_bfloat16 *v, int T, int H, int "
		       "HKV, int D, int E, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
	return "extern \"C\" cudaError_t fused_qkv_rope(const __half *x, const __half *w, const int *pos, const float "
	       "*table, __half *q, __half *k, __half *v, int T, int H, int HKV, int D, int E, void *workspace, size_t "
	       "workspace_bytes, cudaStream_t stream)";
}

static int64_t columns(const int64_t *v)
{
	return (v[H] + 2 * v[HKV]) * v[D];
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[T] * columns(v);
}

/* All but the table. */
static int64_t bytes_plain(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[E] * (v[T] + columns(v)) + 4 * v[T] + bytes_out(v, dtype);
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return bytes_plain(v, dtype) + 4 * v[D] * (v[T] < 8192 ? v[T] : 8192);
}

static int64_t footprint(const int64_t *v, enum dtype dtype)
{
	return bytes_plain(v, dtype) + 4 * v[D] * 8192;
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 2 * v[T] * columns(v) * v[E] + 3 * v[T] * (v[H] + v[HKV]) * v[D];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[D] % 16 != 0)
		return "D is no multiple of 16";
	if (v[E] % 8 != 0)
		return "E is no multiple of 8";
	return NULL;
}

const struct op ops_fused_qkv_rope[] = {
	{
		.name = "fused_qkv_rope",
		.problem = "fused_qkv_rope",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "T", "H", "HKV", "D", "E" },
		.n_axes = 5,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 1,
		.tol_norm = 0.9,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_TENSOR16,
		.footprint = footprint,
		.illegal = illegal,
	},
	{ .name = NULL },
};

/*
 * kv_append.c - write the keys and values of new tokens into a paged cache.
 */
#include <stddef.h>

#include "ops/op.h"

enum { T, HKV, D, P };

/* The first nine are those that verification uses; the rest are the KV heads
 * of models times tokens and usual page sizes. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 8, 128, 16 },     { 64, 8, 128, 16 },     { 1024, 8, 128, 16 }, { 8192, 8, 128, 64 },
	{ 65536, 8, 128, 16 }, { 37, 4, 128, 16 },     { 2048, 32, 96, 32 }, /* Phi-3-mini */
	{ 300, 8, 256, 128 },                                                /* Gemma-2-9B */
	{ 16, 8, 64, 1 },                                                    /* GPT-OSS-20B */
	{ 16, 8, 128, 16 },                                                  /* Llama-3-8B */
	{ 4096, 8, 128, 32 },                                                /* Mistral-7B */
	{ 16384, 8, 128, 16 },                                               /* Mixtral-8x7B */
	{ 65536, 8, 128, 64 },                                               /* Llama-3-70B */
	{ 128, 8, 128, 1 },                                                  /* Llama-3.1-405B */
	{ 333, 8, 128, 128 },                                                /* Qwen3-32B */
	{ 1, 40, 128, 16 },                                                  /* Llama-2-13B */
	{ 1000, 40, 128, 16 }, { 16384, 40, 128, 16 }, { 77, 4, 64, 8 },     /* TinyLlama-1.1B */
	{ 4096, 4, 64, 16 },   { 65536, 4, 64, 16 },   { 512, 2, 64, 16 },   /* Qwen2.5-0.5B */
	{ 65536, 2, 64, 64 },  { 4, 4, 128, 16 },                            /* Qwen2.5-7B */
	{ 8192, 4, 128, 16 },  { 65536, 4, 128, 32 },                        /* Qwen3-30B-A3B */
	{ 64, 8, 256, 16 },                                                  /* Gemma-2-9B */
	{ 16384, 8, 256, 64 }, { 16, 32, 96, 16 },                           /* Phi-3-mini */
	{ 16384, 32, 96, 16 }, { 1000, 32, 80, 16 },                         /* Phi-2 */
	{ 1024, 8, 64, 16 },                                                 /* GPT-OSS-20B */
	{ 65536, 8, 64, 128 }, { 2048, 1, 64, 16 },                          /* Falcon-7B */
	{ 65536, 1, 64, 1 },
};

static const char statement[] =
	"Write the keys and values of T new tokens into a paged cache, in place. Inputs: k[T,HKV,D] and v[T,HKV,D]; "
	"slot[T], int32. In and out: kc and vc, both [NP,HKV,P,D] with pages of P tokens, heads outside tokens within a "
	"page; NP = 2*ceil(T/P) + 8 pages. All are dense, row-major, aligned to 256 bytes, and do not overlap. For "
	"each token t with slot[t] >= 0, page = slot[t] / P, off = slot[t] % P, each head h and each d:\n"
	"  kc[page,h,off,d] = k[t,h,d]\n"
	"  vc[page,h,off,d] = v[t,h,d]\n"
	"A token with slot[t] = -1 is skipped. Slots that are not -1 are distinct, in any order, and less than NP*P. All "
	"other bytes of the caches, which hold live data, keep their values; they must not even be rewritten from a copy "
	"read before. fp16, bf16: all four tensors have that type and values are copied bit by bit. fp8: k and v are "
	"fp16, kc and vc are e4m3, and the value stored is k * kscale (v * vscale) rounded to the nearest e4m3, ties to "
	"even, saturated to +-448; the scales are powers of two, so the product is exact in fp32. D is a multiple of 16 "
	"and need be no power of two; P is one of 1, 8, 16, 32, 64, 128; T and HKV are any numbers from 1. Workspace is "
	"zero before the first call at a shape; later calls find what the last one left.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	switch (dtype) {
	case DT_FP8:
		return "extern \"C\" cudaError_t kv_append(const __half *k, const __half *v, const int *slot, "
		       "__nv_fp8_e4m3 *kc, __nv_fp8_e4m3 *vc, int T, int HKV, int D, int P, float kscale, "
		       "float vscale, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
	case DT_BF16:
		return "extern \"C\" cudaError_t kv_append(const __nv_bfloat16 *k, const __nv_bfloat16 *v, "
		       "const int *slot, __nv_bfloat16 *kc, __nv_bfloat16 *vc, int T, int HKV, int D, int P, "
		       "void *workspace, size_t workspace_bytes, cudaStream_t stream)";
	default:
		return "extern \"C\" cudaError_t kv_append(const __half *k, const __half *v, const int *slot, "
		       "__half *kc, __half *vc, int T, int HKV, int D, int P, void *workspace, "
		       "size_t workspace_bytes, cudaStream_t stream)";
	}
}

static int64_t elements(const int64_t *v)
{
	return 2 * v[T] * v[HKV] * v[D];
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * elements(v);
}

/* k and v stay 16 bits wide when the cache is fp8. */
static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return 2 * elements(v) + bytes_out(v, dtype) + 4 * v[T];
}

static int64_t footprint(const int64_t *v, enum dtype dtype)
{
	int64_t pages = 2 * ((v[T] + v[P] - 1) / v[P]) + 8;

	return 2 * elements(v) + 4 * v[T] + 2 * dtype_bytes(dtype) * pages * v[HKV] * v[P] * v[D];
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)v;
	(void)dtype;
	return 0;
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[D] % 16 != 0)
		return "D is no multiple of 16";
	if (v[P] != 1 && v[P] != 8 && v[P] != 16 && v[P] != 32 && v[P] != 64 && v[P] != 128)
		return "P is none of 1, 8, 16, 32, 64, 128";
	return NULL;
}

const struct op ops_kv_append[] = {
	{
		.name = "kv_append",
		.problem = "kv_append",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16, DT_FP8 },
		.n_dtypes = 3,
		.axes = { "T", "HKV", "D", "P" },
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
		.footprint = footprint,
		.illegal = illegal,
	},
	{ .name = NULL },
};

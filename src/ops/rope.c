/*
 * rope.c - rotary embedding of query and key heads, half-split pairing.
 */
#include <stddef.h>

#include "ops/op.h"

enum { T, H, D };
enum { POSITIONS = 8192 };

/* The first nine are those that verification uses; the rest are the query and
 * key heads of models times tokens. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 40, 128 },                                             /* Llama-3-8B */
	{ 64, 40, 128 },    { 4096, 40, 128 },  { 16384, 72, 128 }, /* Llama-3-70B */
	{ 2048, 64, 96 },                                           /* Phi-3-mini */
	{ 8192, 72, 64 },                                           /* GPT-OSS-20B */
	{ 333, 32, 128 },                                           /* Qwen2.5-7B */
	{ 1000, 24, 256 },                                          /* Gemma-2-9B */
	{ 65536, 8, 128 },                                          /* key heads alone */
	{ 16, 40, 128 },                                            /* Mistral-7B */
	{ 16384, 40, 128 },                                         /* Mixtral-8x7B */
	{ 65536, 40, 128 }, { 1, 72, 128 },                         /* Llama-3-70B */
	{ 128, 72, 128 },                                           /* Qwen3-32B */
	{ 4096, 72, 128 },  { 4, 136, 128 },                        /* Llama-3.1-405B */
	{ 1024, 136, 128 }, { 8192, 136, 128 }, { 77, 80, 128 },    /* Llama-2-13B */
	{ 4096, 80, 128 },  { 64, 36, 64 },                         /* TinyLlama-1.1B */
	{ 16384, 36, 64 },  { 512, 16, 64 },                        /* Qwen2.5-0.5B */
	{ 65536, 16, 64 },  { 1, 32, 128 },                         /* Qwen2.5-7B */
	{ 8192, 32, 128 },  { 1000, 36, 128 },                      /* Qwen3-30B-A3B */
	{ 16384, 36, 128 }, { 4096, 24, 256 },                      /* Gemma-2-9B */
	{ 4, 64, 96 },                                              /* Phi-3-mini */
	{ 16384, 64, 96 },  { 333, 72, 64 },                        /* GPT-OSS-20B */
	{ 2048, 72, 64 }, /* Falcon-7B, 71 query heads and one key head */
	{ 1024, 64, 80 }, /* Phi-2 */
};

static const char statement[] =
	"Rotary position embedding of the query and key heads of T tokens, half-split pairing. Inputs: x[T,H,D]; "
	"pos[T], int32, each in [0, 8192); table[8192,D], fp32, whose row p holds the D/2 cosines and then the D/2 sines "
	"of the angles p * 10000^(-2i/D), i = 0 ... D/2-1. Output: y[T,H,D]. x and y have the same type, fp16 or bf16. "
	"All arrays are dense, row-major, aligned to 256 bytes, and do not overlap: not in place. H counts query and "
	"key heads together; all of them are rotated alike. With c_i = table[pos[t], i] and "
	"s_i = table[pos[t], D/2 + i], for each token t, head h and i < D/2:\n"
	"  y[t,h,i]       = x[t,h,i] * c_i - x[t,h,i + D/2] * s_i\n"
	"  y[t,h,i + D/2] = x[t,h,i + D/2] * c_i + x[t,h,i] * s_i\n"
	"Products and sums are in fp32, angles come from the table as they are (in fp16 they are too coarse), and each "
	"result is rounded once, to nearest even. Positions are arbitrary: not sorted, not distinct, and unrelated to t. "
	"D is a multiple of 16 and need be no power of two (64, 80, 96, 128, 256); T and H are any numbers from 1. Every "
	"element of y is written. Workspace is zero before the first call at a shape; later calls find what the last one "
	"left.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t rope(const __nv_bfloat16 *x, const int *pos, const float *table, "
		       "__nv_bfloat16 *y, int T, int H, int D, void *workspace, size_t workspace_bytes, "
		       "cudaStream_t stream)";
	return "extern \"C\" cudaError_t rope(const __half *x, const int *pos, const float *table, __half *y, int T, "
	       "int H, int D, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[T] * v[H] * v[D];
}

/* Of the table, at most a row per token must be read. */
static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	int64_t rows = v[T] < POSITIONS ? v[T] : POSITIONS;

	return 2 * bytes_out(v, dtype) + 4 * v[D] * rows + 4 * v[T];
}

static int64_t footprint(const int64_t *v, enum dtype dtype)
{
	return 2 * bytes_out(v, dtype) + 4 * v[D] * POSITIONS + 4 * v[T];
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 3 * v[T] * v[H] * v[D];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[D] % 16 != 0)
		return "D is no multiple of 16";
	return NULL;
}

const struct op ops_rope[] = {
	{
		.name = "rope",
		.problem = "rope",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "T", "H", "D" },
		.n_axes = 3,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 0.25,
		.tol_norm = 0.75,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_FP32,
		.footprint = footprint,
		.illegal = illegal,
	},
	{ .name = NULL },
};

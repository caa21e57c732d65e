/*
 * topk_sample.c - draw a token from the K largest logits of each row.
 */
#include <stddef.h>

#include "ops/op.h"

enum { B, V, K };

/* The first eight are those that verification uses; the rest are vocabularies
 * of models in use times batch sizes and common values of K. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 32000, 50 },    { 1, 128256, 50 },   { 8, 50257, 40 },     { 64, 128256, 50 },
	{ 256, 151936, 20 }, { 32, 256000, 64 },  { 128, 129280, 1 },   { 4, 201088, 1000 },
	{ 1, 50257, 50 },    { 16, 32000, 40 },   { 64, 32000, 50 },    { 256, 32000, 20 },
	{ 4, 32064, 64 },    { 128, 32064, 50 },  { 1, 65024, 10 },     { 32, 65024, 40 },
	{ 8, 128256, 1 },    { 16, 128256, 100 }, { 256, 128256, 40 },  { 2, 129280, 64 },
	{ 64, 129280, 256 }, { 1, 151936, 20 },   { 16, 151936, 1000 }, { 64, 152064, 20 },
	{ 8, 152064, 50 },   { 1, 201088, 50 },   { 128, 201088, 100 }, { 1, 256000, 64 },
	{ 8, 256000, 500 },  { 64, 50257, 1 },    { 3, 50257, 777 },    { 2, 1000, 50 },
};

static const char statement[] =
	"Draw one token per row from the K largest logits. Inputs: logits[B,V], fp32, row-major; rnd[B], fp32 "
	"in [0,1). Output: token[B], int32. The kept set S of a row is its K largest logits; of equal logits those "
	"with the lower index come first (-0 and +0 are equal). With p_i = exp(x_i) / sum over j in S of exp(x_j) for "
	"i in S, and C_t = sum of p_i over i in S with i <= t, that is in ascending order of the index, the token of "
	"the row is the least t in S with C_t > rnd. The answer is a function of the inputs: there is no random "
	"generator in the kernel, and sampling by other means (Gumbel noise, rejection) computes another function. "
	"1 <= K <= V and K <= 1024. Logits may be -Inf (probability 0, but they count as kept when fewer than K are "
	"finite); at least one per row is finite; there are no NaN and no +Inf. Logits may be large (200 and more) "
	"or all equal. V may be odd: rows begin at multiples of 4 bytes only; the base of each array is aligned to 256 "
	"bytes. A token t passes if it is in S and C_(t-1) - 1e-5 <= rnd <= C_t + 1e-5 in double precision. Values of rnd "
	"are aimed at the first, the last and the smallest kept probability, so a kept set that is one too short or "
	"too long does not pass.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "extern \"C\" cudaError_t topk_sample(const float *logits, const float *rnd, int *token, int B, int V, "
	       "int K, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 4 * v[B];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return 4 * v[B] * v[V] + 4 * v[B] + bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return v[B] * v[V];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[K] > v[V])
		return "K is larger than V";
	if (v[K] > 1024)
		return "K is larger than 1024";
	return NULL;
}

const struct op ops_topk_sample[] = {
	{
		.name = "topk_sample",
		.problem = "topk_sample",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP32 },
		.n_dtypes = 1,
		.axes = { "B", "V", "K" },
		.n_axes = 3,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		/* Tokens: whether one passes is decided by the statement's rule. */
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

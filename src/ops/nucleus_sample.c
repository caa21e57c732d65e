/*
 * nucleus_sample.c - draw a token from the smallest set of likely tokens that
 * holds a given mass.
 */
#include <stddef.h>

#include "ops/op.h"

enum { B, V };

/* The first seven are those that verification uses; the rest are vocabularies
 * of models in use times batch sizes. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 32000 },   { 1, 128256 },   { 64, 128256 },  { 256, 151936 }, { 16, 50257 },
	{ 32, 256000 }, { 2, 1000 },     { 1, 50257 },    { 8, 32000 },    { 64, 32000 },
	{ 256, 32000 }, { 4, 32064 },    { 128, 32064 },  { 1, 65024 },    { 64, 65024 },
	{ 8, 128256 },  { 256, 128256 }, { 2, 129280 },   { 64, 129280 },  { 1, 151936 },
	{ 16, 151936 }, { 4, 152064 },   { 128, 152064 }, { 1, 201088 },   { 32, 201088 },
	{ 1, 256000 },  { 8, 256000 },   { 128, 256000 }, { 128, 50257 },
};

static const char statement[] =
	"Draw one token per row from its nucleus. Inputs: logits[B,V], fp32, row-major; rnd[B], fp32 in [0,1); top_p[B], "
	"fp32 in (0,1]. Output: token[B], int32. Let q be the softmax of a row over all V logits. Sort the row by logit, "
	"descending, equal logits by index, ascending (-0 and +0 are equal); the kept set S is the shortest prefix whose "
	"sum of q is >= top_p, and it is never empty. With p_i = q_i / sum over j in S of q_j for i in S, and C_t = sum of "
	"p_i over i in S with i <= t, that is in ascending order of the index, the token of the row is the least t in S "
	"with C_t > rnd. The answer is a function of the inputs: there is no random generator in the kernel, and sampling "
	"by other means (Gumbel noise, rejection) computes another function. Logits may be -Inf (probability 0); at least "
	"one per row is finite; there are no NaN and no +Inf. Logits may be large (200 and more), all equal, or sorted by "
	"index. V may be odd: rows begin at multiples of 4 bytes only; the base of each array is aligned to 256 bytes. A "
	"token t passes if the mass before it in sorted order is < top_p + 1e-4 and C_(t-1) - 1e-4 <= rnd <= C_t + 1e-4 in "
	"double precision: sums over V need care. Values of rnd are aimed at the first, the last and the smallest kept "
	"probability.";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "extern \"C\" cudaError_t nucleus_sample(const float *logits, const float *rnd, const float *top_p, "
	       "int *token, int B, int V, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 4 * v[B];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return 4 * v[B] * v[V] + 8 * v[B] + bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 2 * v[B] * v[V];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)v;
	(void)dtype;
	return NULL;
}

const struct op ops_nucleus_sample[] = {
	{
		.name = "nucleus_sample",
		.problem = "nucleus_sample",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP32 },
		.n_dtypes = 1,
		.axes = { "B", "V" },
		.n_axes = 2,
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

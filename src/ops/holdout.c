/*
 * holdout.c - the reserved pairs and the choice of reserved shapes.
 */
#include "ops/holdout.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"

static const struct {
	const char *problem, *gpu;
} pairs[] = {
	/* One of two sisters: the other one is trained on. */
	{ "gemm", "h100" },
	{ "decode_attention", "a10" },
	{ "rmsnorm", "rtx_a6000" },
	{ "mamba_scan", "h100" },
	/* Both sisters. */
	{ "rope", "h100" },
	{ "rope", "h200" },
	{ "moe_scatter", "h100" },
	{ "moe_scatter", "h200" },
	{ "int4_gemv", "a10" },
	{ "int4_gemv", "rtx_a6000" },
	{ "kv_append", "a10" },
	{ "kv_append", "rtx_a6000" },
};

static const char *const names[] = {
	[HOLDOUT_NONE] = NULL,
	[HOLDOUT_SHAPE] = "shape",
	[HOLDOUT_PAIR_NEAR] = "pair_near",
	[HOLDOUT_PAIR_FAR] = "pair_far",
};

const char *holdout_name(enum holdout h)
{
	return names[h];
}

bool holdout_pair_at(int i, const char **problem, const char **gpu)
{
	if (i < 0 || i >= (int)(sizeof pairs / sizeof *pairs))
		return false;
	*problem = pairs[i].problem;
	*gpu = pairs[i].gpu;
	return true;
}

static bool pair_reserved(const char *problem, const char *gpu)
{
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (strcmp(pairs[i].problem, problem) == 0 && strcmp(pairs[i].gpu, gpu) == 0)
			return true;
	}
	return false;
}

enum holdout holdout_pair(const struct op *op, const struct gpu *gpu)
{
	if (!pair_reserved(op->problem, gpu->name))
		return HOLDOUT_NONE;
	return pair_reserved(op->problem, gpu->sister) ? HOLDOUT_PAIR_FAR : HOLDOUT_PAIR_NEAR;
}

/* Batch, tokens and lengths: shapes that differ in these alone are one model's. */
static bool is_loose(const char *axis)
{
	static const char *const loose[] = { "B", "T", "M", "S", "L", "W" };

	for (size_t i = 0; i < sizeof loose / sizeof *loose; i++) {
		if (strcmp(loose[i], axis) == 0)
			return true;
	}
	return false;
}

/* A hash of the problem's name and the model dimensions, in the axes' order:
 * ops of one problem name them alike, so they share their reserved models. */
static uint64_t model_key(const struct op *op, const int64_t *shape)
{
	uint64_t h = hash_str(op->problem);

	for (int i = 0; i < op->n_axes; i++) {
		uint64_t v = (uint64_t)shape[i];

		if (is_loose(op->axes[i]))
			continue;
		h = hash_bytes(op->axes[i], strlen(op->axes[i]), h);
		for (int byte = 0; byte < 8; byte++) {
			unsigned char c = (unsigned char)(v >> 8 * byte);

			h = hash_bytes(&c, 1, h);
		}
	}
	return h;
}

enum { MAX_KEYS = 512, MAX_PROBLEMS = 64 };

struct reservation {
	const char *problem;
	int n;
	uint64_t key[MAX_KEYS]; /* reserved ones */
};

struct count {
	uint64_t key;
	int shapes;
};

static int by_key(const void *a, const void *b)
{
	const struct count *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

/* Models in the order of their hashes, as long as no more than a quarter of
 * the problem's shapes is taken, until a fifth is. */
static void reserve(struct reservation *r)
{
	static struct count counts[MAX_KEYS];
	int n = 0, total = 0, taken = 0, n_ops;
	const struct op *const *ops = op_list(&n_ops);

	for (int i = 0; i < n_ops; i++) {
		if (strcmp(ops[i]->problem, r->problem) != 0)
			continue;
		for (int j = 0; j < ops[i]->n_shapes; j++) {
			uint64_t key = model_key(ops[i], ops[i]->shapes[j]);
			int k;

			for (k = 0; k < n && counts[k].key != key; k++)
				;
			if (k == MAX_KEYS)
				bug("problem %s has more than %d models", r->problem, MAX_KEYS);
			if (k == n)
				counts[n++] = (struct count){ key, 0 };
			counts[k].shapes++;
			total++;
		}
	}
	qsort(counts, (size_t)n, sizeof *counts, by_key);
	for (int k = 0; k < n && 5 * taken < total; k++) {
		if (4 * (taken + counts[k].shapes) > total)
			continue;
		taken += counts[k].shapes;
		r->key[r->n++] = counts[k].key;
	}
}

bool holdout_shape(const struct op *op, const int64_t *shape)
{
	static struct reservation reservations[MAX_PROBLEMS];
	static int n;
	struct reservation *r = NULL;
	uint64_t key = model_key(op, shape);

	for (int i = 0; i < n && !r; i++) {
		if (strcmp(reservations[i].problem, op->problem) == 0)
			r = &reservations[i];
	}
	if (!r) {
		if (n == MAX_PROBLEMS)
			bug("more than %d problems", MAX_PROBLEMS);
		r = &reservations[n++];
		r->problem = op->problem;
		reserve(r);
	}
	for (int i = 0; i < r->n; i++) {
		if (r->key[i] == key)
			return true;
	}
	return false;
}

enum holdout holdout_of(const struct problem *p)
{
	enum holdout h = holdout_pair(p->op, p->gpu);

	if (h != HOLDOUT_NONE)
		return h;
	return holdout_shape(p->op, p->shape) ? HOLDOUT_SHAPE : HOLDOUT_NONE;
}

/*
 * catalog.c - ops in turn, GPUs dealt to each group of tasks, shapes drawn.
 */
#include "ops/catalog.h"

#include <string.h>

#include "base/die.h"
#include "base/rng.h"

static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	if (!list)
		return true;
	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
		if (strcspn(p, ",") == n && memcmp(p, name, n) == 0)
			return true;
	}
	return false;
}

/* Every GPU is reserved for the op. */
static bool starved(const struct catalog *c, const struct op *op)
{
	for (int i = 0; i < c->n_gpus; i++) {
		if (holdout_pair(op, c->gpus[i]) == HOLDOUT_NONE)
			return false;
	}
	return true;
}

void catalog_open(struct catalog *c, const char *ops, const char *gpus)
{
	int n, n_gpus;
	const struct op *const *all = op_list(&n);
	const struct gpu *g;

	c->n_ops = c->n_gpus = 0;
	g = gpu_list(&n_gpus);
	for (int i = 0; i < n_gpus; i++) {
		if (listed(gpus, g[i].name))
			c->gpus[c->n_gpus++] = &g[i];
	}
	for (int i = 0; i < n; i++) {
		/* Whoever asks for a GPU alone gets the ops that are trained on it. */
		if (listed(ops, all[i]->name) && (ops || !starved(c, all[i])))
			c->ops[c->n_ops++] = all[i];
	}
}

const char *catalog_starved(const struct catalog *c)
{
	for (int i = 0; i < c->n_ops; i++) {
		if (starved(c, c->ops[i]))
			return c->ops[i]->name;
	}
	return NULL;
}

/* A task takes at most 60 % of the GPU's memory: room for guards and copies. */
static bool fits(const struct problem *p)
{
	return (double)p->op->footprint(p->shape, p->dtype) <= 0.6e9 * p->gpu->dram_gb;
}

static void set_shape(struct problem *p, int i)
{
	memcpy(p->shape, p->op->shapes[i], sizeof p->shape);
}

/* Turns: impl by the round of the ops, dtype and shape drawn. False when no
 * shape will do. */
static bool fill(struct problem *p, struct rng *r, int64_t round, bool reserved_shape)
{
	int n = p->op->n_shapes, first;
	bool both = p->op->impls == (1u << IMPL_CUDA | 1u << IMPL_TRITON);

	p->impl = both                                ? (enum impl)(round % IMPL_COUNT)
	          : p->op->impls == 1u << IMPL_TRITON ? IMPL_TRITON
	                                              : IMPL_CUDA;
	p->dtype = p->op->dtypes[rng_below(r, (uint64_t)p->op->n_dtypes)];
	first = (int)rng_below(r, (uint64_t)n);
	/* Draw until one will do; the walk at the end only serves tables in which
	 * few shapes do. */
	for (int i = 0; i < 64 + n; i++) {
		set_shape(p, i < 64 ? (i ? (int)rng_below(r, (uint64_t)n) : first) : i - 64);
		if (holdout_shape(p->op, p->shape) == reserved_shape && fits(p) &&
		    !op_illegal(p->op, p->shape, p->dtype))
			return true;
	}
	return false;
}

/* Deals GPUs to the tasks of a group so that each task's pair is unreserved:
 * depth first through a random order. With fewer GPUs than needed, or a list
 * that allows no such deal, false. */
static bool deal(const struct catalog *c, const struct op *const *ops, const int *order, int at,
                 unsigned used, const struct gpu **out)
{
	if (at == c->n_gpus)
		return true;
	for (int i = 0; i < c->n_gpus; i++) {
		int g = order[(i + at) % c->n_gpus];

		if (used >> g & 1 || holdout_pair(ops[at], c->gpus[g]) != HOLDOUT_NONE)
			continue;
		out[at] = c->gpus[g];
		if (deal(c, ops, order, at + 1, used | 1u << g, out))
			return true;
	}
	return false;
}

static const struct gpu *gpu_of(const struct catalog *c, uint64_t seed, int64_t index)
{
	int64_t group = index / c->n_gpus, place = index % c->n_gpus;
	struct rng r = rng_make(rng_mix2(seed, (uint64_t)group), "gpus");
	const struct op *ops[CATALOG_MAX_GPUS];
	const struct gpu *dealt[CATALOG_MAX_GPUS];
	int order[CATALOG_MAX_GPUS];

	for (int i = 0; i < c->n_gpus; i++) {
		order[i] = i;
		ops[i] = c->ops[(group * c->n_gpus + i) % c->n_ops];
	}
	for (int i = c->n_gpus - 1; i > 0; i--) {
		int j = (int)rng_below(&r, (uint64_t)i + 1), v = order[i];

		order[i] = order[j];
		order[j] = v;
	}
	if (deal(c, ops, order, 0, 0, dealt))
		return dealt[place];
	/* Lists given by hand may not allow it: any unreserved GPU then. */
	r = rng_make(rng_mix2(seed, (uint64_t)index), "gpu");
	for (;;) {
		const struct gpu *g = c->gpus[rng_below(&r, (uint64_t)c->n_gpus)];

		if (holdout_pair(ops[place], g) == HOLDOUT_NONE)
			return g;
	}
}

void catalog_train(const struct catalog *c, uint64_t seed, int64_t index, struct problem *out)
{
	struct rng r = rng_make(rng_mix2(seed, (uint64_t)index), "task");

	*out = (struct problem){ .op = c->ops[index % c->n_ops], .gpu = gpu_of(c, seed, index) };
	if (!fill(out, &r, index / c->n_ops, false))
		bug("no training shape of %s fits %s", out->op->name, out->gpu->name);
}

/* Half of the tasks have reserved shapes on GPUs the problem is trained on, a
 * quarter each the two kinds of pairs. */
static enum holdout kind_of(int64_t index)
{
	static const enum holdout turn[] = { HOLDOUT_SHAPE, HOLDOUT_PAIR_NEAR, HOLDOUT_SHAPE,
		                             HOLDOUT_PAIR_FAR };

	return turn[index % 4];
}

enum holdout catalog_holdout(int64_t index, struct problem *out)
{
	struct catalog c;
	enum holdout kind = kind_of(index);
	struct rng r = rng_make((uint64_t)index, "holdout");
	int64_t turn = index / 4, seen = 0, n = 0;

	catalog_open(&c, NULL, NULL);
	/* The (op, gpu) pairs of this kind in the tables' order, taken in turn:
	 * for shapes by op first, so that each has its share. */
	for (int pass = 0; pass < 2; pass++) {
		seen = 0;
		for (int g = 0; g < c.n_gpus; g++) {
			for (int o = 0; o < c.n_ops; o++) {
				enum holdout pair = holdout_pair(c.ops[o], c.gpus[g]);

				if (pair != (kind == HOLDOUT_SHAPE ? HOLDOUT_NONE : kind))
					continue;
				if (pass == 1 && seen == turn % n) {
					*out = (struct problem){ .op = c.ops[o], .gpu = c.gpus[g] };
					if (!fill(out, &r, turn / n, kind == HOLDOUT_SHAPE))
						bug("no hold-out shape of %s fits %s",
						    out->op->name, out->gpu->name);
					return kind;
				}
				seen++;
			}
		}
		n = seen;
	}
	bug("no %s pairs in the hold-out", holdout_name(kind));
}

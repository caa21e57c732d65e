/* plan.c - shapes and parameter sets. */
#include "gpurun/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/rng.h"

enum { MAX_POOL = 160, MAX_TRIES = 48 };

bool plan_fits(const struct problem *p, const struct kernel *k, const int64_t *params,
               const struct kernel_fault *f)
{
	struct binding b;

	config_bind(p, k, &b);
	return !config_illegal(p, &b, params) && (!f || config_fault_applies(&b, params, f));
}

/* --- shapes ------------------------------------------------------------------ */

/* Shapes that a verification can afford, cheapest first, each with the kernel's
 * names bound. */
struct pool {
	int n;
	struct place {
		int64_t shape[OP_MAX_AXES];
		double cost;
		bool odd;
		struct binding binding;
	} place[MAX_POOL];
};

static double cost_of(const struct problem *p, const struct plan_limit *limit)
{
	double bytes = (double)p->op->footprint(p->shape, p->dtype) / limit->bytes;
	double flops = (double)p->op->flops(p->shape, p->dtype) / limit->flops;

	return bytes + flops;
}

static bool is_odd(const struct op *op, const int64_t *v)
{
	for (int a = 0; a < op->n_axes; a++) {
		if (v[a] > 8 && v[a] % 8)
			return true;
	}
	return false;
}

static void offer(struct pool *pool, struct problem *p, const int64_t *v,
                  const struct plan_limit *limit)
{
	struct place *at = &pool->place[pool->n];

	if (pool->n == MAX_POOL || op_illegal(p->op, v, p->dtype))
		return;
	memcpy(p->shape, v, sizeof p->shape);
	at->cost = cost_of(p, limit);
	if (at->cost > 1)
		return;
	for (int i = 0; i < pool->n; i++) {
		if (!memcmp(pool->place[i].shape, v, sizeof at->shape))
			return;
	}
	memcpy(at->shape, v, sizeof at->shape);
	at->odd = is_odd(p->op, v);
	pool->n++;
}

static int by_cost(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->cost < y->cost || x->cost > y->cost)
		return x->cost < y->cost ? -1 : 1;
	return memcmp(x->shape, y->shape, sizeof x->shape);
}

/* The table's shapes; then those with another batch or number of tokens; then
 * with another value on any axis. */
static void fill_pool(struct pool *pool, struct problem *p, const struct plan_limit *limit)
{
	static const int64_t counts[] = { 1, 2, 3, 5, 17, 33, 77, 130, 257, 600, 2049 };
	const struct op *op = p->op;
	int64_t v[OP_MAX_AXES];

	pool->n = 0;
	for (int i = 0; i < op->n_shapes; i++)
		offer(pool, p, op->shapes[i], limit);
	for (int i = 0; i < op->n_shapes && i < 12; i++) {
		for (int a = 0; a < op->n_axes; a++) {
			/* Sequences, tokens, rows. */
			if (!strchr("BTM", op->axes[a][0]) || op->axes[a][1])
				continue;
			memcpy(v, op->shapes[i], sizeof v);
			for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
				v[a] = counts[c];
				if (pool->n < MAX_POOL * 3 / 4)
					offer(pool, p, v, limit);
			}
		}
	}
	for (int i = 0; i < op->n_shapes; i++) {
		for (int a = 0; a < op->n_axes; a++) {
			static const int64_t part[] = { 4, 16 }, less[] = { 1, 8, 16, 32 };

			for (size_t c = 0; c < sizeof part / sizeof *part; c++) {
				memcpy(v, op->shapes[i], sizeof v);
				v[a] /= part[c];
				offer(pool, p, v, limit);
			}
			for (size_t c = 0; c < sizeof less / sizeof *less; c++) {
				memcpy(v, op->shapes[i], sizeof v);
				v[a] -= less[c];
				offer(pool, p, v, limit);
			}
		}
	}
	qsort(pool->place, (size_t)pool->n, sizeof *pool->place, by_cost);
}

/* Of the places that fit (indices, cheapest first): the ends, the quartiles, an
 * odd one. */
static void pick_shapes(const struct pool *pool, const int *fit, int n, struct plan_set *out)
{
	bool odd = false;

	out->n_shapes = n < PLAN_SHAPES ? n : PLAN_SHAPES;
	for (int i = 0; i < out->n_shapes; i++) {
		int at = n <= PLAN_SHAPES ? i : (int)((int64_t)i * (n - 1) / (PLAN_SHAPES - 1));

		memcpy(out->shapes[i], pool->place[fit[at]].shape, sizeof out->shapes[i]);
		odd |= pool->place[fit[at]].odd;
	}
	for (int i = 1; i < n - 1 && !odd && n > PLAN_SHAPES; i++) {
		const struct place *x = &pool->place[fit[i]];

		if (!x->odd)
			continue;
		memcpy(out->shapes[1], x->shape, sizeof out->shapes[1]);
		odd = true;
	}
}

/* --- parameter sets ------------------------------------------------------------ */

static int64_t count_sets(const struct kernel *k)
{
	int64_t n = 1;

	for (int i = 0; i < k->n_params; i++)
		n *= k->params[i].n;
	return n;
}

static void nth_set(const struct kernel *k, int64_t at, int64_t *params)
{
	for (int i = k->n_params - 1; i >= 0; i--) {
		params[i] = k->params[i].value[at % k->params[i].n];
		at /= k->params[i].n;
	}
}

static bool same_params(const struct kernel *k, const int64_t *a, const int64_t *b)
{
	return !memcmp(a, b, (size_t)k->n_params * sizeof *a);
}

/* A kernel that a compiler could not even fit: no place for it in a label. */
static bool sound(const struct problem *p, struct binding *b, const int64_t *params,
                  const struct kernel_fault *f)
{
	return !config_illegal(p, b, params) && (!f || config_fault_applies(b, params, f));
}

int plan_sets(const struct problem *problem, const struct kernel *k, const struct kernel_fault *f,
              const struct plan_limit *limit, uint64_t seed, struct plan_set out[PLAN_SETS])
{
	static struct pool pool;
	struct problem p = *problem;
	struct rng rng = rng_make(rng_mix2(seed, hash_str(k->path)), f ? f->name : "sets");
	int64_t n_all = count_sets(k);
	int n = 0, fit[MAX_POOL];

	fill_pool(&pool, &p, limit);
	for (int i = 0; i < pool.n; i++) {
		memcpy(p.shape, pool.place[i].shape, sizeof p.shape);
		config_bind(&p, k, &pool.place[i].binding);
	}
	/* First only sets that fit five shapes; then whatever fits at all. */
	for (int least = PLAN_SHAPES; least > 0 && !n; least = least > 1 ? 1 : 0) {
		for (int try = 0; try < MAX_TRIES && n < PLAN_SETS; try++) {
			struct plan_set *s = &out[n];
			bool known = false;
			int m = 0;

			if (!try)
				config_preset(k, s->params);
			else if (n_all <= MAX_TRIES)
				nth_set(k, (try + (int64_t)(seed % (uint64_t)n_all)) % n_all,
				        s->params);
			else
				nth_set(k, (int64_t)rng_below(&rng, (uint64_t)n_all), s->params);
			for (int i = 0; i < n; i++)
				known |= same_params(k, out[i].params, s->params);
			if (known)
				continue;
			for (int i = 0; i < pool.n; i++) {
				memcpy(p.shape, pool.place[i].shape, sizeof p.shape);
				if (sound(&p, &pool.place[i].binding, s->params, f))
					fit[m++] = i;
			}
			if (m < least)
				continue;
			pick_shapes(&pool, fit, m, s);
			n++;
		}
	}
	return n;
}

/* --- sweeps -------------------------------------------------------------------- */

const char *plan_role_name(enum plan_role r)
{
	static const char *const names[ROLE_COUNT] = { "correct", "compile", "wrong", "poor" };

	return names[r];
}

/* At how many of the shapes it fits. */
static int reach(const struct problem *problem, const int64_t (*shapes)[OP_MAX_AXES], int n_shapes,
                 const struct plan_config *c)
{
	struct problem p = *problem;
	int n = 0;

	for (int i = 0; i < n_shapes; i++) {
		memcpy(p.shape, shapes[i], sizeof p.shape);
		n += plan_fits(&p, c->kernel, c->params, c->fault);
	}
	return n;
}

/*
 * How badly a configuration must do, 0 not at all: refused for its shared
 * memory, spilling, or with few warps on an SM. Judged at one shape.
 */
static double poverty(const struct problem *p, const struct plan_config *c)
{
	struct binding b;
	struct resources r;
	double worst = 0;

	config_bind(p, c->kernel, &b);
	if (!config_resources(&b, c->params, &r))
		return 0;
	for (int i = 0; i < r.n; i++) {
		const struct launch *l = &r.launch[i];
		double bad;

		if (l->smem > p->gpu->smem_per_block) {
			bad = 3;
		} else if (l->regs > 255) {
			bad = 2 + (double)l->regs / 1e4;
		} else {
			struct occupancy o =
				gpu_occupancy(p->gpu, (int)l->block, (int)l->regs, l->smem);

			bad = 1 - o.fraction;
		}
		if (bad > worst)
			worst = bad;
	}
	return worst;
}

static bool known(const struct plan_config *list, int n, const struct plan_config *c)
{
	for (int i = 0; i < n; i++) {
		if (list[i].kernel == c->kernel && list[i].fault == c->fault &&
		    same_params(c->kernel, list[i].params, c->params))
			return true;
	}
	return false;
}

static const struct kernel_fault *some_fault(const struct kernel *k, bool compile, struct rng *rng)
{
	int n = 0, at;

	for (int i = 0; i < k->n_faults; i++)
		n += k->faults[i].compile == compile;
	if (!n)
		return NULL;
	at = (int)rng_below(rng, (uint64_t)n);
	for (int i = 0; i < k->n_faults; i++) {
		if (k->faults[i].compile == compile && !at--)
			return &k->faults[i];
	}
	return NULL;
}

int plan_sweep(const struct problem *problem, const int64_t (*shapes)[OP_MAX_AXES], int n_shapes,
               int n, uint64_t seed, struct plan_config *out)
{
	enum { TRIES = 4000, POOR_TRIES = 200 };
	struct rng rng =
		rng_make(rng_mix2(seed, hash_str(problem->op->name)), impl_name(problem->impl));
	struct problem p = *problem;
	int n_kernels, want[ROLE_COUNT], got = 0;
	const struct kernel *const *kernels =
		kernel_list(p.op->name, p.impl == IMPL_TRITON, &n_kernels);
	const struct kernel *usable[64];
	int n_usable = 0;

	for (int i = 0; i < n_kernels && n_usable < 64; i++) {
		if (kernel_has_dtype(kernels[i], dtype_name(p.dtype)) &&
		    !config_unmet(p.gpu, kernels[i]))
			usable[n_usable++] = kernels[i];
	}
	if (!n_usable)
		return 0;
	want[ROLE_COMPILE] = want[ROLE_WRONG] = (3 * n + 39) / 40;
	want[ROLE_POOR] = 6 * n / 40;
	want[ROLE_CORRECT] = n - want[ROLE_COMPILE] - want[ROLE_WRONG] - want[ROLE_POOR];
	memcpy(p.shape, shapes[n_shapes / 2], sizeof p.shape);
	for (int role = 0; role < ROLE_COUNT; role++) {
		/* Variants in turn, faults from anywhere; correct ones at first with their
		 * preset. */
		int turn = role == ROLE_CORRECT ? 0 : (int)rng_below(&rng, (uint64_t)n_usable);

		for (int i = 0, try = 0; i < want[role] && try < TRIES && got < n; try++) {
			struct plan_config c = { .role = (enum plan_role)role }, other;
			double poor = -1;

			c.kernel = usable[(try + turn) % n_usable];
			if (role == ROLE_CORRECT && try < n_usable)
				config_preset(c.kernel, c.params);
			else
				nth_set(c.kernel,
				        (int64_t)rng_below(&rng, (uint64_t)count_sets(c.kernel)),
				        c.params);
			if (role == ROLE_COMPILE || role == ROLE_WRONG) {
				c.fault = some_fault(c.kernel, role == ROLE_COMPILE, &rng);
				if (!c.fault)
					continue;
			}
			/* The worst of many draws. */
			for (int k = 0; role == ROLE_POOR && k < POOR_TRIES; k++) {
				other = c;
				nth_set(c.kernel,
				        (int64_t)rng_below(&rng, (uint64_t)count_sets(c.kernel)),
				        other.params);
				if (poverty(&p, &other) > poor && !known(out, got, &other)) {
					poor = poverty(&p, &other);
					c = other;
				}
			}
			/* Early draws must fit everywhere, later ones somewhere. */
			if (role != ROLE_POOR &&
			    reach(&p, shapes, n_shapes, &c) < (try < TRIES / 2 ? n_shapes : 1))
				continue;
			if (known(out, got, &c))
				continue;
			out[got++] = c;
			i++;
		}
	}
	return got;
}

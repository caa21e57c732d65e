/* catalog.c - coverage of the tasks and the hold-out, over seeds. */
#include "ops/catalog.h"

#include <string.h>

#include "check.h"

static void training(uint64_t seed)
{
	static const struct op *ops[2400];
	static const struct gpu *gpus[2400];
	struct catalog c;
	int reserved = 0, windows = 0, groups = 0, illegal = 0, large = 0;

	catalog_open(&c, NULL, NULL);
	for (int i = 0; i < 2400; i++) {
		struct problem p, again;

		catalog_train(&c, seed, i, &p);
		catalog_train(&c, seed, i, &again);
		illegal += memcmp(&p, &again, sizeof p) != 0;
		ops[i] = p.op;
		gpus[i] = p.gpu;
		reserved += holdout_of(&p) != HOLDOUT_NONE;
		illegal += op_illegal(p.op, p.shape, p.dtype) != NULL;
		large += (double)p.op->footprint(p.shape, p.dtype) > 0.6e9 * p.gpu->dram_gb;
	}
	for (int i = 0; i + 17 <= 2400; i++) {
		for (int j = i; j < i + 17; j++) {
			for (int k = i; k < j; k++)
				windows += ops[j] == ops[k];
		}
	}
	for (int i = 0; i + c.n_gpus <= 2400; i += c.n_gpus) {
		for (int j = i; j < i + c.n_gpus; j++) {
			for (int k = i; k < j; k++)
				groups += gpus[j] == gpus[k];
		}
	}
	check(!reserved, "seed %llu: no training task is reserved", (unsigned long long)seed);
	check(!windows, "seed %llu: any 17 consecutive tasks hold all ops",
	      (unsigned long long)seed);
	check(!groups, "seed %llu: each group holds every GPU", (unsigned long long)seed);
	check(!illegal && !large, "seed %llu: tasks are legal and fit", (unsigned long long)seed);
}

static void tables(void)
{
	int n, pairs = 0, near = 0, far = 0;
	const struct op *const *ops = op_list(&n);
	const char *problem, *gpu;

	for (int i = 0; i < n; i++) {
		int held = 0, twice = 0;

		for (int j = 0; j < ops[i]->n_shapes; j++) {
			held += holdout_shape(ops[i], ops[i]->shapes[j]);
			for (int k = 0; k < j; k++)
				twice += memcmp(ops[i]->shapes[j], ops[i]->shapes[k],
				                (size_t)ops[i]->n_axes * sizeof(int64_t)) == 0;
			for (int d = 0; d < ops[i]->n_dtypes; d++)
				if (op_illegal(ops[i], ops[i]->shapes[j], ops[i]->dtypes[d]))
					check(false, "%s shape %d as %s: %s", ops[i]->name, j,
					      dtype_name(ops[i]->dtypes[d]),
					      op_illegal(ops[i], ops[i]->shapes[j],
					                 ops[i]->dtypes[d]));
		}
		check(ops[i]->n_shapes >= 24 && !twice, "%s: %d different shapes", ops[i]->name,
		      ops[i]->n_shapes);
		check(held >= 1 && 2 * held < ops[i]->n_shapes, "%s: %d shapes are reserved",
		      ops[i]->name, held);
	}
	while (holdout_pair_at(pairs, &problem, &gpu)) {
		int known = 0;

		for (int i = 0; i < n; i++) {
			if (strcmp(ops[i]->problem, problem) == 0) {
				known = 1;
				near += holdout_pair(ops[i], gpu_find(gpu)) == HOLDOUT_PAIR_NEAR;
				far += holdout_pair(ops[i], gpu_find(gpu)) == HOLDOUT_PAIR_FAR;
			}
		}
		check(known && gpu_find(gpu), "pair (%s, %s) names what there is", problem, gpu);
		pairs++;
	}
	check(pairs == 12 && near && far, "%d pairs", pairs);
}

static void holdout(void)
{
	int count[4] = { 0 }, wrong = 0, ops_seen = 0, n;
	const struct op *const *ops = op_list(&n);
	static int seen[CATALOG_MAX_OPS];

	for (int i = 0; i < CATALOG_HOLDOUT_TASKS; i++) {
		struct problem p;
		enum holdout h = catalog_holdout(i, &p);

		count[h]++;
		wrong += h == HOLDOUT_SHAPE
		                 ? holdout_of(&p) != h
		                 : holdout_pair(p.op, p.gpu) != h || holdout_shape(p.op, p.shape);
		for (int o = 0; o < n; o++)
			seen[o] += ops[o] == p.op;
	}
	for (int o = 0; o < n; o++)
		ops_seen += seen[o] > 0;
	check(!wrong, "every hold-out task is reserved for what it says");
	check(count[HOLDOUT_SHAPE] == 256 && count[HOLDOUT_PAIR_NEAR] == 128 &&
	              count[HOLDOUT_PAIR_FAR] == 128,
	      "256 shapes, 128 near and 128 far pairs");
	check(ops_seen == n, "the hold-out has all %d ops", n);
}

int main(void)
{
	struct catalog c;

	tables();
	for (uint64_t seed = 1; seed <= 4; seed++)
		training(seed);
	holdout();
	catalog_open(&c, "rope", "h100,h200");
	check(catalog_starved(&c) && strcmp(catalog_starved(&c), "rope") == 0,
	      "rope on h100 and h200 alone is refused");
	catalog_open(&c, "rope,gemm_fp16", "h200,h100,a100");
	check(!catalog_starved(&c), "with the a100 it is not");
	for (int i = 0; i < 60; i++) {
		struct problem p;

		catalog_train(&c, 7, i, &p);
		if (holdout_of(&p) != HOLDOUT_NONE)
			check(false, "task %d of a short list is reserved", i);
	}
	return check_done();
}

/*
 * plan.h - which shapes and parameters a label or a sweep is proved with:
 * functions of the tables and a seed alone.
 */
#ifndef GPURUN_PLAN_H
#define GPURUN_PLAN_H

#include "kernels/kernel.h"
#include "ops/config.h"

enum { PLAN_SHAPES = 5, PLAN_SETS = 3 };

/* What a verification at a shape may cost: bytes of all tensors, operations of
 * the reference. */
struct plan_limit {
	double bytes, flops;
};

/* One parameter set and the shapes it is tried at, cheapest first. */
struct plan_set {
	int64_t params[KERNEL_MAX_PARAMS];
	int n_shapes;
	int64_t shapes[PLAN_SHAPES][OP_MAX_AXES];
};

/*
 * Up to PLAN_SETS sets for a kernel (and a fault that applies; NULL: none) of
 * p's op, impl, gpu and dtype; p's shape is not read. The preset comes first if
 * it fits anywhere; of the shapes the least, the largest within the limit and,
 * where one fits, an odd one are among those of each set. Returns how many sets;
 * fewer where no more fit.
 */
int plan_sets(const struct problem *p, const struct kernel *k, const struct kernel_fault *f,
              const struct plan_limit *limit, uint64_t seed, struct plan_set out[PLAN_SETS]);

/* A configuration of a sweep. */
enum plan_role { ROLE_CORRECT, ROLE_COMPILE, ROLE_WRONG, ROLE_POOR, ROLE_COUNT };
const char *plan_role_name(enum plan_role r);

struct plan_config {
	const struct kernel *kernel;
	int64_t params[KERNEL_MAX_PARAMS];
	const struct kernel_fault *fault;
	enum plan_role role;
};

/*
 * `n` configurations of p's op at shapes[n_shapes]: 28 in 40 correct ones, 3
 * compile faults, 3 wrong ones, 6 that spill, leave the GPU empty or ask for
 * more than it has; spread over the variants, legal (but for the last) at as
 * many of the shapes as can be. out has room for n; returns how many.
 */
int plan_sweep(const struct problem *p, const int64_t (*shapes)[OP_MAX_AXES], int n_shapes, int n,
               uint64_t seed, struct plan_config *out);

/* Whether the configuration may be tried at the problem's shape: it is legal
 * and its fault applies. */
bool plan_fits(const struct problem *p, const struct kernel *k, const int64_t *params,
               const struct kernel_fault *f);

#endif

/*
 * config.h - a configuration (variant, parameters) of a problem: is it legal,
 * what does each of its launches use.
 *
 * The numbers come from the kernel file's own markers, evaluated for the
 * problem's axes; the same for simulate, space, stats and bench.
 */
#ifndef OPS_CONFIG_H
#define OPS_CONFIG_H

#include "gpu/gpu.h"
#include "kernels/kernel.h"
#include "ops/op.h"

/* One kernel to be optimised on one GPU. */
struct problem {
	const struct op *op;
	enum impl impl;
	const struct gpu *gpu;
	enum dtype dtype;
	int64_t shape[OP_MAX_AXES];
};

/* A kernel with the problem's names bound; made once, used for many
 * parameter sets. */
struct binding {
	const struct kernel *kernel;
	int64_t values[EXPR_MAX_SYMBOLS];
};

/* What one launch uses. Units: kernels/kernel.h, README "Adding a variant". */
struct launch {
	int64_t grid, block, smem, regs, read, once, write, inflight, ops, sfu;
	int64_t tc16, tc8i, tc8f, eff, chain, tiles;
};

struct resources {
	int n;
	struct launch launch[KERNEL_MAX_LAUNCHES];
};

/* Binds axes, e, fp8, fp4, bf16, SMS, arch, LAT and LATL2. */
void config_bind(const struct problem *p, const struct kernel *k, struct binding *out);

/* NULL when the variant serves the problem with these parameters, else why not
 * (static text). Needs of the hardware are no legality: see config_unmet. */
const char *config_illegal(const struct problem *p, struct binding *b, const int64_t *params);

/* The same, and the launches of a legal configuration in *out. */
const char *config_try(const struct problem *p, struct binding *b, const int64_t *params,
                       struct resources *out);

/* The first feature the GPU lacks for this kernel, NULL when it has all. */
const char *config_unmet(const struct gpu *g, const struct kernel *k);

/* Evaluates the launches; false when an expression overflows or a grid or
 * block is out of CUDA's range: then the configuration is illegal. */
bool config_resources(struct binding *b, const int64_t *params, struct resources *out);

/* Whether a fault may be used: its `when` holds, and the op's facts do. */
bool config_fault_applies(struct binding *b, const int64_t *params, const struct kernel_fault *f);

/* Walks all parameter sets: params starts at config_first and is advanced by
 * config_next until that returns false. */
void config_first(const struct kernel *k, int64_t *params);
bool config_next(const struct kernel *k, int64_t *params);
void config_preset(const struct kernel *k, int64_t *params);

#endif

/*
 * config.c - binding a kernel's expressions to a problem and evaluating them.
 */
#include "ops/config.h"

#include <string.h>

void config_bind(const struct problem *p, const struct kernel *k, struct binding *out)
{
	const struct gpu *g = p->gpu;

	out->kernel = k;
	memset(out->values, 0, sizeof out->values);
	for (int i = 0; i < p->op->n_axes; i++)
		kernel_bind(k, out->values, p->op->axes[i], p->shape[i]);
	kernel_bind(k, out->values, "e", dtype_bytes(p->dtype));
	kernel_bind(k, out->values, "fp8", p->dtype == DT_FP8);
	kernel_bind(k, out->values, "fp4", p->dtype == DT_FP4);
	kernel_bind(k, out->values, "bf16", p->dtype == DT_BF16);
	kernel_bind(k, out->values, "SMS", g->sms);
	kernel_bind(k, out->values, "arch", g->cc);
	kernel_bind(k, out->values, "LAT", (int64_t)g->dram_latency);
	kernel_bind(k, out->values, "LATL2", (int64_t)g->l2_latency);
}

const char *config_unmet(const struct gpu *g, const struct kernel *k)
{
	for (int i = 0; k->needs[i]; i++) {
		int f = gpu_feature_from_name(k->needs[i]);

		if (f < 0 || !gpu_has(g, (enum gpu_feature)f))
			return k->needs[i];
	}
	return NULL;
}

const char *config_illegal(const struct problem *p, struct binding *b, const int64_t *params)
{
	struct resources res;

	return config_try(p, b, params, &res);
}

const char *config_try(const struct problem *p, struct binding *b, const int64_t *params,
                       struct resources *out)
{
	const struct kernel *k = b->kernel;

	if (!kernel_has_dtype(k, dtype_name(p->dtype)))
		return "the variant does not serve the dtype";
	kernel_bind_params(k, b->values, params);
	for (int i = 0; i < k->n_legal; i++) {
		int64_t ok;

		if (!expr_eval(&k->legal[i], b->values, &ok) || !ok)
			return "the variant does not support the shape with these parameters";
	}
	if (!config_resources(b, params, out))
		return "a launch is out of range";
	for (int i = 0; i < out->n; i++) {
		const struct launch *l = &out->launch[i];

		if (l->smem > p->gpu->smem_per_block)
			return "a block uses more shared memory than the GPU has";
	}
	return NULL;
}

bool config_resources(struct binding *b, const int64_t *params, struct resources *out)
{
	const struct kernel *k = b->kernel;

	kernel_bind_params(k, b->values, params);
	out->n = k->n_launches;
	for (int i = 0; i < k->n_launches; i++) {
		const struct expr *cost = k->launches[i].cost;
		int64_t v[COST_COUNT];

		for (int j = 0; j < COST_COUNT; j++) {
			v[j] = 0;
			if (cost[j].n && (!expr_eval(&cost[j], b->values, &v[j]) || v[j] < 0))
				return false;
		}
		/* Defaults: all reads are distinct, a full-rate pipe, a tile per
		 * block, 32 registers (what a small kernel gets). */
		if (!cost[COST_ONCE].n || v[COST_ONCE] > v[COST_READ])
			v[COST_ONCE] = v[COST_READ];
		if (!cost[COST_EFF].n)
			v[COST_EFF] = 100;
		if (!cost[COST_TILES].n)
			v[COST_TILES] = v[COST_GRID];
		if (!cost[COST_REGS].n)
			v[COST_REGS] = 32;
		if (v[COST_GRID] < 1 || v[COST_GRID] > INT32_MAX || v[COST_BLOCK] < 1 ||
		    v[COST_BLOCK] > 1024 || v[COST_TILES] < 1 || v[COST_EFF] < 1 ||
		    v[COST_EFF] > 100)
			return false;
		out->launch[i] = (struct launch){
			v[COST_GRID], v[COST_BLOCK], v[COST_SMEM],  v[COST_REGS],
			v[COST_READ], v[COST_ONCE],  v[COST_WRITE], v[COST_INFLIGHT],
			v[COST_OPS],  v[COST_SFU],   v[COST_TC16],  v[COST_TC8I],
			v[COST_TC8F], v[COST_EFF],   v[COST_CHAIN], v[COST_TILES],
		};
	}
	return true;
}

bool config_fault_applies(struct binding *b, const int64_t *params, const struct kernel_fault *f)
{
	int64_t ok;

	if (!f->when.n)
		return true;
	kernel_bind_params(b->kernel, b->values, params);
	return expr_eval(&f->when, b->values, &ok) && ok;
}

void config_first(const struct kernel *k, int64_t *params)
{
	for (int i = 0; i < k->n_params; i++)
		params[i] = k->params[i].value[0];
}

void config_preset(const struct kernel *k, int64_t *params)
{
	for (int i = 0; i < k->n_params; i++)
		params[i] = k->params[i].preset;
}

bool config_next(const struct kernel *k, int64_t *params)
{
	for (int i = k->n_params - 1; i >= 0; i--) {
		const struct kernel_param *a = &k->params[i];
		int j = 0;

		while (a->value[j] != params[i])
			j++;
		if (j + 1 < a->n) {
			params[i] = a->value[j + 1];
			return true;
		}
		params[i] = a->value[0];
	}
	return false;
}

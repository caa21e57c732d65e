/*
 * taskgen - emits task rows: which kernel to optimise, for which GPU.
 *
 * Reads nothing. The n-th task of a seed is the same whatever range is asked
 * for.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rng.h"
#include "episode/schema.h"
#include "episode/write.h"
#include "model/model.h"
#include "ops/catalog.h"
#include "row/row.h"
#include "swarm/env.h"

static int64_t count = 100, start;
static uint64_t seed = 1;
static const char *split = "train", *ops, *gpus;

static const char *check_split(const char *s)
{
	return word_find(SET_SPLIT, s) < 0 ? "unknown split" : NULL;
}

static const char *check_op(const char *s)
{
	return op_find(s) ? NULL : "unknown op";
}

static const char *check_gpu(const char *s)
{
	return gpu_find(s) ? NULL : "unknown GPU";
}

static const struct opt options[] = {
	{ 'n', "count", OPT_INT, &count, "N", "how many tasks", 0, 1000000000, NULL },
	{ 's', "seed", OPT_SEED, &seed, "S", "the run's seed; the hold-out does not depend on it",
	  0, 0, NULL },
	{ 0, "start", OPT_INT, &start, "I", "index of the first task", 0, 1000000000, NULL },
	{ 0, "split", OPT_STR, &split, "SPLIT",
	  "train or holdout (512 tasks, with baseline_ms and floor_ms)", 0, 0, check_split },
	{ 0, "ops", OPT_LIST, &ops, "LIST", "only these ops, in turn", 0, 0, check_op },
	{ 0, "gpus", OPT_LIST, &gpus, "LIST", "only these GPUs", 0, 0, check_gpu },
	{ 0 },
};

static const struct program program = {
	.name = "taskgen",
	.summary =
		"Emits task rows: one AI-inference kernel on one GPU each, with its whole definition.",
	.output = "task rows",
	.opts = options,
};

static void emit_task(struct row *r, const struct problem *p, int64_t index, enum holdout held)
{
	static struct buf source;
	struct task t = { .split = split,
		          .index = index,
		          .op = p->op,
		          .impl = p->impl,
		          .gpu = p->gpu,
		          .dtype = p->dtype };
	const struct kernel *k = kernel_find(p->op->name, p->impl == IMPL_TRITON, "naive");
	int64_t params[KERNEL_MAX_PARAMS];
	double u = dtype_round_off(p->dtype), element, norm;
	char id[40];
	json *task, *part;
	int line;

	t.seed = rng_mix2(rng_mix2(held == HOLDOUT_NONE ? seed : 0, held == HOLDOUT_NONE ? 1 : 2),
	                  (uint64_t)index);
	snprintf(id, sizeof id, "%s_%06lld", split, (long long)index);
	t.task_id = id;
	memcpy(t.shape, p->shape, sizeof t.shape);
	task_write(r->root, &t);
	task = json_add_object(r->root, "task");
	json_add(task, "statement", row_new_text(r, p->op->statement, strlen(p->op->statement)));
	json_add_str(task, "signature", p->op->signature(p->impl, p->dtype));
	part = json_add_object(task, "tolerance");
	op_tolerance(p->op, p->shape, &element, &norm);
	json_add_num(part, "rtol", num_value(norm > 0 ? 2 * u : 0));
	json_add_num(part, "rms", num_value(element * u));
	json_add_num(part, "norm", num_value(norm * u));
	config_preset(k, params);
	buf_clear(&source);
	kernel_render(k, dtype_name(p->dtype), params, NULL, &source, &line);
	json_add(task, "baseline_source", row_new_text(r, source.data, source.len));
	part = json_add_object(task, "gpu_facts");
	json_add_int(part, "sms", p->gpu->sms);
	json_add_num(part, "peak_gbps", p->gpu->dram_gbps);
	json_add_num(part, "peak_tflops", task_peak_tflops(&t));
	json_add_int(part, "smem_per_sm", p->gpu->smem_per_sm);
	if (held != HOLDOUT_NONE) {
		json_add_num(r->root, "baseline_ms", env_baseline_ms(p));
		json_add_num(r->root, "floor_ms", task_floor_ms(&t));
		json_add_str(r->root, "holdout", holdout_name(held));
	}
	row_emit(r);
}

int main(int argc, char **argv)
{
	struct catalog catalog;
	struct row r;
	bool held;

	opt_parse(&program, argc, argv, false);
	held = word_find(SET_SPLIT, split) == SPLIT_HOLDOUT;
	if (held && (ops || gpus))
		opt_usage("--ops and --gpus do not apply to the hold-out");
	if (held && start + count > CATALOG_HOLDOUT_TASKS)
		opt_usage("the hold-out has %d tasks", CATALOG_HOLDOUT_TASKS);
	catalog_open(&catalog, ops, gpus);
	if (catalog_starved(&catalog))
		opt_usage("every GPU asked for is reserved for '%s'", catalog_starved(&catalog));
	source_open(&r, count);
	for (int64_t i = start; i < start + count; i++) {
		struct problem p;
		enum holdout kind = HOLDOUT_NONE;

		source_next(&r);
		if (held)
			kind = catalog_holdout(i, &p);
		else
			catalog_train(&catalog, seed, i, &p);
		emit_task(&r, &p, i, kind);
	}
	return source_close(&r);
}

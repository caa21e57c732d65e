/*
 * simulate - plays each planned task's episode by the analytic model.
 *
 * A bare task is planned first, by the code that `plan` runs. With
 * --candidates the rows are bare candidates, and each gets its result.
 */
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/opt.h"
#include "base/rng.h"
#include "episode/read.h"
#include "episode/schema.h"
#include "episode/write.h"
#include "row/row.h"
#include "swarm/env.h"
#include "swarm/swarm.h"

static const char *scenario;
static bool candidates;

static const char *check_scenario(const char *s)
{
	return scenario_agents(s, NULL, NULL) ? NULL : "unknown scenario";
}

static const struct opt options[] = {
	{ 0, "scenario", OPT_STR, &scenario, "NAME",
	  "plan bare tasks for this one (default: in turn)", 0, 0, check_scenario },
	{ 'c', "candidates", OPT_FLAG, &candidates, NULL,
	  "rows are bare candidates (see space); print a result row each", 0, 0, NULL },
	{ 0 },
};

static void play(struct row *r)
{
	static struct arena arena;
	static struct episode e;
	static struct message messages[EP_MAX_MESSAGES];
	json *task, *root;

	arena_reset(&arena);
	e.messages = messages;
	task_read(r, &e.task);
	if (plan_present(r))
		plan_read(r, &e);
	else
		swarm_plan(&e, scenario, &arena);
	swarm_play(&e, &arena);
	task = json_copy(row_object(r, r->root, "", "task"));
	root = episode_write(r, &e, task);
	json_free(r->root);
	r->root = root;
	row_emit(r);
}

/* The seed of a bare candidate's draws: the problem it names. */
static uint64_t problem_seed(const struct problem *p)
{
	uint64_t h = hash_str(p->op->name);

	h = rng_mix2(h, hash_str(p->gpu->name));
	h = rng_mix2(h, (uint64_t)p->dtype * IMPL_COUNT + (uint64_t)p->impl);
	for (int i = 0; i < p->op->n_axes; i++)
		h = rng_mix2(h, (uint64_t)p->shape[i]);
	return h;
}

static void try_candidate(struct row *r)
{
	static struct arena arena;
	static struct buf source;
	static struct message m;
	struct candidate_row c;
	struct problem p;
	struct trial t = { 0 };
	int64_t params[KERNEL_MAX_PARAMS];
	int line;

	arena_reset(&arena);
	candidate_read(r, &c);
	p = env_problem(&c.task);
	if (c.source)
		row_fail(r, "field 'source' is somebody's own: only bench can answer for it");
	t.kernel = kernel_find(p.op->name, p.impl == IMPL_TRITON, c.variant);
	if (!t.kernel)
		row_fail(r, "unknown variant '%s'", c.variant);
	if (!kernel_has_dtype(t.kernel, dtype_name(p.dtype)))
		row_fail(r, "variant '%s' does not serve dtype '%s'", c.variant,
		         dtype_name(p.dtype));
	if (c.fault && !(t.fault = kernel_fault_find(t.kernel, c.fault)))
		row_fail(r, "unknown fault '%s'", c.fault);
	config_preset(t.kernel, params);
	for (int i = 0; i < c.params.n; i++) {
		int at = kernel_param_index(t.kernel, c.params.key[i]), j = 0;

		if (at < 0)
			row_fail(r, "unknown parameter '%s'", c.params.key[i]);
		while (j < t.kernel->params[at].n &&
		       t.kernel->params[at].value[j] != c.params.value[i])
			j++;
		if (j == t.kernel->params[at].n)
			row_fail(r, "parameter '%s' cannot be '%lld'", c.params.key[i],
			         (long long)c.params.value[i]);
		params[at] = c.params.value[i];
	}
	t.params = params;
	buf_clear(&source);
	kernel_render(t.kernel, dtype_name(p.dtype), params, t.fault, &source, &line);
	message_init(&m, KIND_RESULT);
	env_run(&p, problem_seed(&p), &t, hash_bytes(source.data, source.len, 0), line, &arena, &m);
	result_write(r, &m, word_name(ORIGIN_SIMULATED), NULL);
	row_emit(r);
}

static void simulate_row(struct row *r)
{
	if (candidates)
		try_candidate(r);
	else
		play(r);
}

static void start(void)
{
	if (candidates && scenario)
		opt_usage("--scenario does not go with --candidates");
}

int main(int argc, char **argv)
{
	static const struct filter filter = {
		.program = {
			.name = "simulate",
			.summary = "Plays episodes by the analytic model: messages, candidates with full source, outcomes.",
			.input = "task rows, planned or not; with --candidates, candidate rows",
			.output = "episode rows, null where score and reward fill; with --candidates, result rows",
			.opts = options,
		},
		.row = simulate_row,
		.start = start,
	};

	return filter_main(&filter, argc, argv);
}

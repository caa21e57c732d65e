/*
 * plan - gives each task its scenario, its agents and its split of the work.
 */
#include "base/arena.h"
#include "base/opt.h"
#include "episode/read.h"
#include "episode/schema.h"
#include "episode/write.h"
#include "row/row.h"
#include "swarm/swarm.h"

static const char *scenario;

static const char *check_scenario(const char *s)
{
	return scenario_agents(s, NULL, NULL) ? NULL : "unknown scenario";
}

static const struct opt options[] = {
	{ 0, "scenario", OPT_STR, &scenario, "NAME",
	  "dispatch, parallel_sweep, pipeline or campaign for all (default: in turn)", 0, 0,
	  check_scenario },
	{ 0 },
};

static void plan_row(struct row *r)
{
	static struct arena arena;
	static struct episode e;
	const char *what;

	arena_reset(&arena);
	task_read(r, &e.task);
	what = swarm_plan(&e, scenario, &arena);
	if (what)
		row_fail(r, "%s '%s'", what, scenario);
	plan_write(r, &e);
	row_emit(r);
}

int main(int argc, char **argv)
{
	static const struct filter filter = {
		.program = {
			.name = "plan",
			.summary = "Gives each task a scenario, agents (id, role, skill) and assignments.",
			.input = "task rows",
			.output = "the same rows with scenario, n_agents, agents, assignments",
			.opts = options,
		},
		.row = plan_row,
	};

	return filter_main(&filter, argc, argv);
}

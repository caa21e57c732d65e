/* swarm.c - the player over many seeds: skill pays, episodes hold together. */
#include "swarm/swarm.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "check.h"
#include "ops/catalog.h"
#include "swarm/env.h"

static struct message messages[EP_MAX_MESSAGES];

/* Plays tasks 0 … n-1 with every agent's skill set; sums of log2 speedup at the
 * end and after the first `early` results. */
static void play(double skill, const char *scenario, int n, int early, double *whole, double *begin)
{
	static struct arena a;
	static struct episode e;
	struct catalog c;

	*whole = *begin = 0;
	catalog_open(&c, NULL, NULL);
	for (int i = 0; i < n; i++) {
		struct problem p;
		double best, first;
		int results = 0;

		arena_reset(&a);
		catalog_train(&c, 99, i, &p);
		e.task = (struct task){ .task_id = "t",
			                .split = "train",
			                .index = i,
			                .seed = rng_mix2(99, (uint64_t)i),
			                .op = p.op,
			                .impl = p.impl,
			                .gpu = p.gpu,
			                .dtype = p.dtype };
		memcpy(e.task.shape, p.shape, sizeof e.task.shape);
		e.messages = messages;
		swarm_plan(&e, scenario, &a);
		for (int j = 0; j < e.n_agents; j++)
			e.agents[j].skill = skill;
		swarm_play(&e, &a);
		best = first = e.baseline_ms;
		for (int j = 0; j < e.n_messages; j++) {
			if (messages[j].kind != KIND_RESULT)
				continue;
			if (messages[j].bench.present && messages[j].bench.ms < best)
				best = messages[j].bench.ms;
			if (++results <= early)
				first = best;
		}
		*whole += num_log2(e.baseline_ms / best);
		*begin += num_log2(e.baseline_ms / first);
	}
}

int main(void)
{
	static const char *const scenarios[] = { "dispatch", "parallel_sweep", "pipeline",
		                                 "campaign" };

	for (int s = 0; s < 4; s++) {
		double low, low_early, mid, mid_early, high, high_early;

		play(0.15, scenarios[s], 340, 8, &low, &low_early);
		play(0.5, scenarios[s], 340, 8, &mid, &mid_early);
		play(0.9, scenarios[s], 340, 8, &high, &high_early);
		check(high > low, "%s: skill finds better kernels: log2 speedup %.3f, %.3f, %.3f",
		      scenarios[s], low / 340, mid / 340, high / 340);
		check(high_early > mid_early && mid_early > low_early,
		      "%s: and sooner: after 8 results %.3f, %.3f, %.3f", scenarios[s],
		      low_early / 340, mid_early / 340, high_early / 340);
	}
	return check_done();
}

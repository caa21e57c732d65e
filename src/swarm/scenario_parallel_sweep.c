/*
 * scenario_parallel_sweep.c - one variant, its configurations dealt out among
 * many workers; the top two of the leaderboard refine.
 */
#include "swarm/world.h"

static void plan(struct world *w)
{
	lead_assign(w, w->e->n_agents > 12 ? 1 : 2, true);
}

static void start(struct world *w)
{
	lead_open(w, 7);
}

static void resulted(struct world *w, int candidate)
{
	if (rng_unit(&w->rng) < 0.5)
		lead_hears(w, w->candidates[candidate].author);
}

static void idle(struct world *w)
{
	int order[EP_MAX_AGENTS], n, leader;

	if (lead_closed(w))
		return;
	if (w->round++ >= 2 && (w->now > 3600 || w->round > 40 || !lead_goes_on(w))) {
		lead_close(w);
		return;
	}
	if (!lead_goes_on(w)) {
		lead_close(w);
		return;
	}
	leader = lead_take_stock(w);
	n = world_ranking(w, order);
	for (int i = n > 1 ? 1 : 0; i >= 0 && n > 0; i--)
		lead_redirect(w, order[i], leader, w->round == 1 ? 3 : 2);
	if (n == 0)
		lead_redirect(w, (int)rng_below(&w->rng, (uint64_t)w->n_members), -1, 2);
}

const struct scenario scenario_parallel_sweep = {
	.name = "parallel_sweep",
	.min_agents = 4,
	.max_agents = 20,
	.last_leg = 1500,
	.wander = 0.25,
	.plan = plan,
	.start = start,
	.resulted = resulted,
	.idle = idle,
};

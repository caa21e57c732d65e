/*
 * scenario_dispatch.c - a lead splits the variants among a few workers, merges
 * the winner after each round and redirects the rest to it.
 */
#include "swarm/world.h"

static void plan(struct world *w)
{
	lead_assign(w, 3, false);
}

static void start(struct world *w)
{
	lead_open(w, 3 + w->e->n_agents);
}

static void resulted(struct world *w, int candidate)
{
	lead_hears(w, w->candidates[candidate].author);
}

static void idle(struct world *w)
{
	int order[EP_MAX_AGENTS], n, leader;

	if (lead_closed(w))
		return;
	if (w->round++ >= 3 || !lead_goes_on(w)) {
		if (w->round > 40 || !lead_goes_on(w) || w->now > 3600) {
			lead_close(w);
			return;
		}
	}
	leader = lead_take_stock(w);
	n = world_ranking(w, order);
	/* Most of the reserve goes to those behind, who now start from the
	 * leader; its author keeps going by itself. */
	for (int i = n - 1; i > 0 && w->reserve > 1; i--)
		lead_redirect(w, order[i], leader,
		              w->round == 1 ? 1 + (int)rng_below(&w->rng, 2) : 1);
	if (n > 0 && w->reserve > 0)
		lead_spend(w, order[0], w->round == 1 ? 2 : w->reserve < 2 ? w->reserve : 2);
	if (n == 0)
		lead_redirect(w, (int)rng_below(&w->rng, (uint64_t)w->n_members), -1, 2);
}

const struct scenario scenario_dispatch = {
	.name = "dispatch",
	.min_agents = 2,
	.max_agents = 8,
	.last_leg = 1500,
	.wander = 0.85,
	.plan = plan,
	.start = start,
	.resulted = resulted,
	.idle = idle,
};

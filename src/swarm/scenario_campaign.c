/*
 * scenario_campaign.c - a fleet over variants and configurations: leaderboard,
 * merge and re-bench of the leader after each wave, redirects of the rest.
 */
#include "episode/schema.h"
#include "swarm/world.h"

static void plan(struct world *w)
{
	w->e->agents[w->e->n_agents - 1].role = word_name(ROLE_VERIFIER);
	lead_assign(w, w->e->n_agents > 10 ? 1 : 2, false);
}

static void start(struct world *w)
{
	lead_open(w, 4 + w->e->n_agents / 2);
}

static void resulted(struct world *w, int candidate)
{
	if (rng_unit(&w->rng) < 0.45)
		lead_hears(w, w->candidates[candidate].author);
}

static void call(struct world *w, int what, int candidate)
{
	(void)what;
	say_verify(w, candidate, world_member_of(w, word_name(ROLE_VERIFIER), 0));
}

static void idle(struct world *w)
{
	int order[EP_MAX_AGENTS], n, leader, merged;

	if (lead_closed(w))
		return;
	if ((w->round++ >= 3 && (w->now > 3600 || w->round > 40)) || !lead_goes_on(w)) {
		lead_close(w);
		return;
	}
	merged = w->e->n_messages;
	leader = lead_take_stock(w);
	/* The verifier has heard of the leader only if it was merged. */
	if (leader >= 0 && w->e->messages[w->e->n_messages - 1].kind == KIND_MERGE &&
	    w->e->n_messages > merged)
		world_later(w, world_think(&w->rng, 4), 0, leader);
	n = world_ranking(w, order);
	for (int i = n - 1; i > n / 2 && w->reserve > 2; i--)
		lead_redirect(w, order[i], leader, 1);
	for (int i = 0; i < 2 && i < n && w->reserve > 0; i++)
		lead_spend(w, order[i], w->reserve > 1 ? 2 : 1);
	if (n == 0)
		lead_redirect(w, (int)rng_below(&w->rng, (uint64_t)w->n_members - 1), -1, 2);
}

const struct scenario scenario_campaign = {
	.name = "campaign",
	.min_agents = 5,
	.max_agents = 20,
	.last_leg = 1500,
	.wander = 0.85,
	.plan = plan,
	.start = start,
	.resulted = resulted,
	.idle = idle,
	.call = call,
};

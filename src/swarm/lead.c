/*
 * lead.c - what a lead does in more than one scenario.
 */
#include <math.h>
#include <string.h>

#include "episode/schema.h"
#include "swarm/world.h"

enum { STATE_CLOSED = 15, STATE_LEADER = 14 }; /* of w->state */

/* An episode shorter than this is not closed while anything is left to try. */
static const int64_t least_seconds = 3700;

static bool takes_variant(const struct agent *a)
{
	return strcmp(a->role, word_name(ROLE_WORKER)) == 0 ||
	       strcmp(a->role, word_name(ROLE_PROPOSER)) == 0;
}

void lead_assign(struct world *w, int tries, bool one)
{
	struct episode *e = w->e;
	struct rng r = rng_make(e->task.seed, "assign");
	int variants[MAX_VARIANTS], n = search_assignable(w, variants), turn = 0;

	for (int i = n - 1; i > 0; i--) {
		int j = (int)rng_below(&r, (uint64_t)i + 1), v = variants[i];

		variants[i] = variants[j];
		variants[j] = v;
	}
	for (int i = 0; i < e->n_agents; i++) {
		if (!takes_variant(&e->agents[i]))
			continue;
		e->assignments[e->n_assignments++] = (struct assignment){
			e->agents[i].id,
			w->variants[variants[one ? 0 : turn++ % n]].kernel->variant,
			tries,
		};
	}
}

void lead_open(struct world *w, int reserve)
{
	w->state[STATE_LEADER] = -1;
	w->reserve = reserve;
	w->emergency = 4;
	say_plan(w);
	for (int i = 0; i < w->e->n_assignments; i++) {
		const struct assignment *as = &w->e->assignments[i];
		int member = episode_agent(w->e, as->agent), part = 0, of = 0;

		/* Who shares a variant gets a part of it. */
		for (int j = 0; j < w->e->n_assignments; j++) {
			if (strcmp(w->e->assignments[j].variant, as->variant) == 0) {
				part += j < i;
				of++;
			}
		}
		if (of > 1)
			search_slice(w, member, part, of);
		w->now += 5 + (int64_t)rng_below(&w->rng, 40);
		say_dispatch(w, member, (int)as->tries);
		world_give(w, member, (int)as->tries);
	}
}

int lead_spend(struct world *w, int member, int n)
{
	if (n > w->reserve)
		n = w->reserve;
	w->reserve -= n;
	world_give(w, member, n);
	return n;
}

int lead_take_stock(struct world *w)
{
	int leader = world_leader(w);

	w->now += world_think(&w->rng, 2);
	say_leaderboard(w);
	if (leader >= 0 && leader != w->state[STATE_LEADER]) {
		w->now += 20 + (int64_t)rng_below(&w->rng, 90);
		say_merge(w, leader);
		w->state[STATE_LEADER] = leader;
	}
	return leader;
}

void lead_redirect(struct world *w, int member, int leader, int n)
{
	if (n > w->reserve)
		n = w->reserve;
	if (n < 1)
		return;
	if (leader < 0) {
		int variants[MAX_VARIANTS], count = search_assignable(w, variants);

		w->members[member].variant = variants[rng_below(&w->rng, (uint64_t)count)];
		search_whole_region(w, member);
	}
	w->now += 5 + (int64_t)rng_below(&w->rng, 40);
	say_redirect(w, member, leader, n);
	lead_spend(w, member, n);
}

bool lead_goes_on(struct world *w)
{
	if (!world_has_time(w))
		return false;
	if (w->reserve < 1 && w->now < least_seconds && w->emergency > 0) {
		w->reserve = 2;
		w->emergency -= 2;
	}
	return w->reserve > 0;
}

void lead_close(struct world *w)
{
	w->state[STATE_CLOSED] = 1;
	w->now += world_think(&w->rng, 3);
	say_leaderboard(w);
	w->now += 30 + (int64_t)rng_below(&w->rng, 120);
	say_verdict(w);
}

bool lead_closed(const struct world *w)
{
	return w->state[STATE_CLOSED];
}

void lead_hears(struct world *w, int member)
{
	if (w->members[member].tries == 0 && rng_unit(&w->rng) < 0.75) {
		w->now += 5 + (int64_t)rng_below(&w->rng, 30);
		say_status(w, member);
	}
}

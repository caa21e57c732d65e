/*
 * scenario_pipeline.c - proposer, reviewer, verifier and tuner pass one kernel
 * along by handoff: each candidate is read before it runs, each gain is run
 * again by the verifier and goes on to a tuner.
 */
#include <string.h>

#include "episode/schema.h"
#include "swarm/world.h"

enum { CALL_REVIEW, CALL_VERIFY };
enum { STATE_REVIEWER_FREE, STATE_VERIFIER_FREE, STATE_PENDING }; /* of w->state */

static void plan(struct world *w)
{
	static const int roles[] = { ROLE_PROPOSER, ROLE_REVIEWER, ROLE_VERIFIER,
		                     ROLE_TUNER,    ROLE_PROPOSER, ROLE_TUNER };

	for (int i = 0; i < w->e->n_agents; i++)
		w->e->agents[i].role = word_name((enum word)roles[i]);
	lead_assign(w, w->e->n_agents > 4 ? 4 : 6, false);
}

static void start(struct world *w)
{
	lead_open(w, w->e->n_agents == 3 ? 5 : 7);
}

/* A stage works on one thing at a time: when will this one be done? */
static int64_t queue(struct world *w, int state, double minutes)
{
	int64_t from = w->state[state] > w->now ? w->state[state] : w->now;

	w->state[state] = (int)(from + world_think(&w->rng, minutes));
	return w->state[state] - w->now;
}

static void submitted(struct world *w, int candidate)
{
	int reviewer = world_member_of(w, word_name(ROLE_REVIEWER), 0);

	w->now += 3;
	say_handoff(w, candidate, w->candidates[candidate].author, reviewer);
	world_later(w, queue(w, STATE_REVIEWER_FREE, 3), CALL_REVIEW, candidate);
}

static void review(struct world *w, int candidate)
{
	int reviewer = world_member_of(w, word_name(ROLE_REVIEWER), 0);
	const struct candidate *c = &w->candidates[candidate];
	struct member *m = &w->members[reviewer];
	double doubt = c->fault ? 0.35 + 0.5 * m->agent->skill : 0.10 * (1.1 - m->agent->skill);

	say_review(w, candidate, reviewer, rng_unit(&m->rng) >= doubt);
	world_run(w, candidate, w->now);
}

static void resulted(struct world *w, int candidate)
{
	int verifier = world_member_of(w, word_name(ROLE_VERIFIER), 0);
	const struct candidate *c = &w->candidates[candidate];

	if (w->members[c->author].base == candidate) {
		w->now += 3;
		say_handoff(w, candidate, c->author, verifier);
		w->state[STATE_PENDING]++;
		world_later(w, queue(w, STATE_VERIFIER_FREE, 4), CALL_VERIFY, candidate);
	}
	lead_hears(w, c->author);
}

static void verify(struct world *w, int candidate)
{
	int verifier = world_member_of(w, word_name(ROLE_VERIFIER), 0);
	const struct candidate *c = &w->candidates[candidate];
	int tuner = world_member_of(w, word_name(ROLE_TUNER),
	                            (int)rng_below(&w->rng, w->e->n_agents > 5 ? 2 : 1));

	w->state[STATE_PENDING]--;
	say_verify(w, candidate, verifier);
	if (tuner < 0 || tuner == c->author ||
	    !(world_ms(w, candidate) < world_prev_best(w, tuner)))
		return;
	w->now += 3;
	say_handoff(w, candidate, verifier, tuner);
	search_adopt(w, tuner, candidate);
	lead_spend(w, tuner, w->members[tuner].tries < 1 ? 2 : 1);
}

static void call(struct world *w, int what, int candidate)
{
	if (what == CALL_REVIEW)
		review(w, candidate);
	else
		verify(w, candidate);
}

static void idle(struct world *w)
{
	int leader, who;

	if (lead_closed(w))
		return;
	if ((w->round++ >= 1 && (w->now > 3600 || w->round > 40)) || !lead_goes_on(w)) {
		lead_close(w);
		return;
	}
	leader = lead_take_stock(w);
	/* The tuner takes the best further; without one its author does. */
	who = world_member_of(w, word_name(ROLE_TUNER), 0);
	if (who < 0)
		who = world_member_of(w, word_name(ROLE_PROPOSER), 0);
	lead_redirect(w, who, leader, w->reserve > 3 ? 3 : w->reserve);
}

const struct scenario scenario_pipeline = {
	.name = "pipeline",
	.min_agents = 3,
	.max_agents = 6,
	.last_leg = 2700,
	.wander = 0.85,
	.plan = plan,
	.start = start,
	.submitted = submitted,
	.resulted = resulted,
	.idle = idle,
	.call = call,
};

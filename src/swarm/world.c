/*
 * world.c - the event loop of an episode, and its clock.
 */
#include "swarm/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"
#include "episode/schema.h"
#include "swarm/env.h"
#include "swarm/swarm.h"

/* Written by the build: SCENARIO(<name>) for each scenario_<name>.c here. */
#define SCENARIO(name) extern const struct scenario scenario_##name;
#include "scenarios.inc"
#undef SCENARIO

static const struct scenario *const scenarios[] = {
#define SCENARIO(name) &scenario_##name,
#include "scenarios.inc"
#undef SCENARIO
};

enum { N_SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* The world is large; one row is played at a time. */
static struct world the_world;

static const struct scenario *find_scenario(const char *name)
{
	for (int i = 0; i < N_SCENARIOS; i++) {
		if (strcmp(scenarios[i]->name, name) == 0)
			return scenarios[i];
	}
	return NULL;
}

static struct world *world_open(struct episode *e, const struct scenario *s, struct arena *a)
{
	struct world *w = &the_world;

	w->e = e;
	w->scenario = s;
	w->problem = env_problem(&e->task);
	w->arena = a;
	w->rng = rng_make(e->task.seed, "lead");
	w->words = rng_make(e->task.seed, "words");
	w->now = w->gpu_free = 0;
	w->n_members = w->n_candidates = w->n_events = w->seq = w->round = w->reserve =
		w->emergency = 0;
	memset(w->state, 0, sizeof w->state);
	search_variants(w);
	return w;
}

const char *swarm_plan(struct episode *e, const char *scenario, struct arena *a)
{
	struct rng r = rng_make(e->task.seed, "team");
	const struct scenario *s;
	int n_gpus;

	gpu_list(&n_gpus);
	if (scenario) {
		s = find_scenario(scenario);
		if (!s)
			return "unknown scenario";
	} else {
		s = scenarios[e->task.index / n_gpus % N_SCENARIOS];
	}
	e->scenario = s->name;
	e->n_agents =
		s->min_agents + (int)rng_below(&r, (uint64_t)(s->max_agents - s->min_agents + 1));
	e->n_assignments = 0;
	for (int i = 0; i < e->n_agents; i++) {
		e->agents[i] = (struct agent){
			.id = arena_printf(a, "a%02d", i + 1),
			.role = word_name(ROLE_WORKER),
			/* Between apprentice and expert, most in between. */
			.skill = num_round((rng_unit(&r) + rng_unit(&r)) / 2 * 0.8 + 0.15, 3),
			.tries = EP_NULL_INT,
			.kept = EP_NULL_INT,
			.best_ms = NAN,
			.ret = NAN,
		};
	}
	s->plan(world_open(e, s, a));
	return NULL;
}

static int before(const struct event *a, const struct event *b)
{
	return a->t != b->t ? a->t < b->t : a->seq < b->seq;
}

static void push(struct world *w, int64_t t, int type, int a, int b)
{
	int max = (int)(sizeof w->events / sizeof *w->events), i;
	struct event new = { t, w->seq++, (unsigned)type, a, b };

	if (w->n_events == max)
		bug("more than %d events at once", max);
	for (i = w->n_events++; i > 0 && before(&w->events[i - 1], &new) == 0; i--)
		w->events[i] = w->events[i - 1];
	w->events[i] = new;
}

void world_later(struct world *w, int64_t seconds, int what, int arg)
{
	push(w, w->now + seconds, EVENT_CALL, what, arg);
}

int64_t world_think(struct rng *r, double minutes)
{
	/* sigma 0.55 of the logarithm: the slowest tenth takes twice the median. */
	return 1 + (int64_t)(60 * minutes * num_exp(0.55 * rng_normal(r)));
}

bool world_has_time(const struct world *w)
{
	int64_t queued = w->gpu_free > w->now ? w->gpu_free : w->now;

	return queued + w->scenario->last_leg <= w->deadline;
}

/* Who would not be done thinking in time does not begin. */
static void think(struct world *w, int member)
{
	struct member *m = &w->members[member];
	int64_t t = w->now + world_think(&m->rng, 16.0 - 9.0 * m->agent->skill);

	if (t + w->scenario->last_leg > w->deadline) {
		m->tries = 0;
		return;
	}
	m->busy = true;
	push(w, t, EVENT_THOUGHT, member, 0);
}

void world_give(struct world *w, int member, int tries)
{
	struct member *m = &w->members[member];

	m->tries += tries;
	if (!m->busy && m->tries > 0)
		think(w, member);
}

struct message *world_message(struct world *w, enum kind kind, const char *role, const char *from,
                              const char *to)
{
	struct episode *e = w->e;
	struct message *m;

	if (e->n_messages == EP_MAX_MESSAGES)
		bug("an episode of more than %d messages", EP_MAX_MESSAGES);
	m = &e->messages[e->n_messages];
	message_init(m, kind);
	m->step = e->n_messages;
	m->t = w->now;
	m->role = role;
	m->from = from;
	m->to = to;
	return m;
}

void world_sent(struct world *w)
{
	w->e->n_messages++;
	replay_take(&w->replay);
}

void world_run(struct world *w, int candidate, int64_t ready)
{
	struct candidate *c = &w->candidates[candidate];
	struct rng r = rng_make(rng_mix2(w->e->task.seed, (uint64_t)candidate), "queue");
	int64_t start = ready > w->gpu_free ? ready : w->gpu_free;

	/* nvcc and the harness: 20 to 60 s, a fault found early takes less. */
	w->gpu_free = start + 12 + (int64_t)rng_below(&r, 20) +
	              (c->fault && c->fault->compile ? 0 : 14 + (int64_t)rng_below(&r, 24));
	push(w, w->gpu_free, EVENT_RESULT, candidate, 0);
}

static void result(struct world *w, int candidate)
{
	struct candidate *c = &w->candidates[candidate];
	struct member *who = &w->members[c->author];
	struct trial trial = { w->variants[c->sight.config.variant].kernel, c->sight.config.params,
		               c->fault };
	struct message *m = world_message(w, KIND_RESULT, word_name(ROLE_ENV), word_name(ROLE_ENV),
	                                  who->agent->id);
	double prev = world_prev_best(w, c->author);

	m->candidate = c->id;
	if (!env_run(&w->problem, w->e->task.seed, &trial, c->source_hash, c->fault_line, w->arena,
	             m))
		bug("an illegal configuration of %s was proposed", trial.kernel->path);
	c->result = m;
	if (m->bench.present) {
		who->limiter = limiter_from_name(m->bench.limiter);
		if (message_improves(m, prev))
			who->base = candidate;
	}
	world_sent(w);
}

static void thought(struct world *w, int member)
{
	struct member *m = &w->members[member];
	int c;

	/* What cannot be finished before the deadline is not begun. */
	if (!world_has_time(w) || w->n_candidates == MAX_CANDIDATES ||
	    (c = search_propose(w, member)) < 0) {
		m->tries = 0;
		m->busy = false;
		return;
	}
	m->tries--;
	m->last = c;
	say_candidate(w, c);
	if (w->scenario->submitted)
		w->scenario->submitted(w, c);
	else
		world_run(w, c, w->now);
}

static bool anybody_busy(const struct world *w)
{
	for (int i = 0; i < w->n_members; i++) {
		if (w->members[i].busy)
			return true;
	}
	return false;
}

static void resulted(struct world *w, int candidate)
{
	int author = w->candidates[candidate].author;
	struct member *m = &w->members[author];

	result(w, candidate);
	m->busy = false;
	if (w->scenario->resulted)
		w->scenario->resulted(w, candidate);
	if (!m->busy && m->tries > 0 && world_has_time(w))
		think(w, author);
}

void swarm_play(struct episode *e, struct arena *a)
{
	const struct scenario *s = find_scenario(e->scenario);
	struct world *w;

	if (!s)
		bug("scenario %s has no player", e->scenario);
	w = world_open(e, s, a);
	e->baseline_ms = env_baseline_ms(&w->problem);
	e->best_ms = e->speedup = e->ret = NAN;
	e->elapsed_s = EP_NULL_INT;
	e->scheme = NULL;
	e->env = word_name(ORIGIN_SIMULATED);
	e->n_messages = 0;
	replay_start(&w->replay, e);
	speech_open(w);
	/* Two to four hours and a half; what runs then still ends. */
	w->deadline = 7200 + 300 * (int64_t)rng_below(&w->rng, 31);
	w->n_members = e->n_agents;
	for (int i = 0; i < e->n_agents; i++) {
		w->members[i] = (struct member){ .agent = &e->agents[i],
			                         .variant = -1,
			                         .home = -1,
			                         .base = -1,
			                         .last = -1,
			                         .limiter = -1 };
		w->members[i].rng = rng_make(rng_mix2(e->task.seed, (uint64_t)i), "agent");
	}
	for (int i = 0; i < e->n_assignments; i++) {
		const struct assignment *as = &e->assignments[i];
		int member = episode_agent(e, as->agent);

		for (int v = 0; v < w->n_variants; v++) {
			if (member >= 0 &&
			    strcmp(w->variants[v].kernel->variant, as->variant) == 0) {
				w->members[member].variant = w->members[member].home = v;
				search_whole_region(w, member);
			}
		}
	}
	s->start(w);
	for (;;) {
		struct event ev;

		if (!w->n_events) {
			int before_idle = e->n_messages;

			if (s->idle && !anybody_busy(w))
				s->idle(w);
			if (!w->n_events && e->n_messages == before_idle)
				return;
			continue;
		}
		ev = w->events[0];
		memmove(w->events, w->events + 1, (size_t)--w->n_events * sizeof *w->events);
		/* Who spoke last may have spoken past this event's time. */
		w->now = ev.t > w->now ? ev.t : w->now;
		switch (ev.type) {
		case EVENT_THOUGHT:
			thought(w, ev.a);
			break;
		case EVENT_RESULT:
			resulted(w, ev.a);
			break;
		case EVENT_CALL:
			s->call(w, ev.a, ev.b);
			break;
		}
	}
}

double world_ms(const struct world *w, int candidate)
{
	const struct message *m = candidate < 0 ? NULL : w->candidates[candidate].result;

	return m && m->bench.present ? m->bench.ms : NAN;
}

double world_prev_best(const struct world *w, int member)
{
	return w->replay.prev_best[member];
}

int world_leader(const struct world *w)
{
	int best = -1;

	for (int i = 0; i < w->n_candidates; i++) {
		double ms = world_ms(w, i);

		if (ms < w->e->baseline_ms && (best < 0 || ms < world_ms(w, best)))
			best = i;
	}
	return best;
}

int world_ranking(const struct world *w, int *members)
{
	int n = 0;

	for (int i = 0; i < w->n_members; i++) {
		double ms = w->replay.best[i];
		int j;

		if (isnan(ms))
			continue;
		for (j = n++; j > 0 && ms < w->replay.best[members[j - 1]]; j--)
			members[j] = members[j - 1];
		members[j] = i;
	}
	return n;
}

int world_member_of(const struct world *w, const char *role, int nth)
{
	for (int i = 0; i < w->e->n_agents; i++) {
		if (strcmp(w->e->agents[i].role, role) == 0 && nth-- == 0)
			return i;
	}
	return -1;
}

/* settle.c - see settle.h. */
#include "episode/settle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "base/num.h"
#include "episode/pay.h"
#include "episode/replay.h"
#include "episode/schema.h"

struct court {
	struct episode *e;
	const struct objector *o;
	struct replay *past;
	int i; /* the message at hand */
};

/* ---- stated against true ---- */

static bool same(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

static const char *print_number(double x, char *out, size_t cap)
{
	if (isnan(x))
		return "null";
	snprintf(out, cap, "%.9g", x);
	return out;
}

/* A claim: null says something too. */
static void hold(const struct court *c, enum rule rule, const char *field, double stated,
                 double truth)
{
	char a[32], b[32];

	if (!same(stated, truth))
		object(c->o, rule, c->i, field, "is %s, not %s", print_number(stated, a, sizeof a),
		       print_number(truth, b, sizeof b));
}

/* A derived value: null has still to be filled. */
static void fill(const struct court *c, enum rule rule, const char *field, double *value,
                 double truth)
{
	if (!isnan(*value))
		hold(c, rule, field, *value, truth);
	*value = truth;
}

static void fill_int(const struct court *c, enum rule rule, const char *field, int64_t *value,
                     int64_t truth)
{
	if (*value != EP_NULL_INT && *value != truth)
		object(c->o, rule, c->i, field, "is %" PRId64 ", not %" PRId64, *value, truth);
	*value = truth;
}

/* ---- results ---- */

/* The status that compile, verify and bench amount to; `improved` decides
 * between the two of verified work. -1 if they amount to nothing. */
static int outcome(const struct message *m, bool improved)
{
	int stated = word_find(SET_OUTCOME, m->status);
	int compiled = word_find(SET_COMPILED, m->compile.status);
	int verified = m->verify.present ? word_find(SET_VERDICT, m->verify.status) : -1;

	if (stated == OUTCOME_INFRA_ERROR)
		return m->bench.present ? -1 : stated;
	if (compiled != COMPILED_OK) {
		if (m->verify.present || m->bench.present || compiled < 0)
			return -1;
		return compiled == COMPILED_ERROR ? OUTCOME_COMPILE_ERROR
		                                  : OUTCOME_UNSUPPORTED_ARCH;
	}
	if (stated == OUTCOME_LAUNCH_ERROR || stated == OUTCOME_CRASHED ||
	    stated == OUTCOME_TIMEOUT)
		return m->bench.present || verified == VERDICT_PASS ? -1 : stated;
	if (verified == VERDICT_FAIL)
		return m->bench.present ? -1 : OUTCOME_WRONG_RESULT;
	if (verified == VERDICT_PASS && m->bench.present)
		return improved ? OUTCOME_IMPROVED : OUTCOME_NO_IMPROVEMENT;
	return -1;
}

static void settle_result(const struct court *c, struct message *m)
{
	int f = replay_fact(c->past, m->candidate), to = episode_agent(c->e, m->to), truth;
	int stated = word_find(SET_OUTCOME, m->status);
	double prev = to >= 0 ? c->past->prev_best[to] : c->e->baseline_ms;
	bool improved = message_improves(m, prev);

	if (f < 0) {
		object(c->o, RULE_NO_CANDIDATE, c->i, "candidate", "has not been sent: '%s'",
		       m->candidate);
	} else if (c->past->fact[f].result >= 0) {
		object(c->o, RULE_SECOND_RESULT, c->i, "candidate", "has its result already: '%s'",
		       m->candidate);
	} else if (to < 0 || c->past->fact[f].author != to) {
		object(c->o, RULE_NO_RESULT, c->i, "to", "is not the author of %s: '%s'",
		       m->candidate, m->to ? m->to : "null");
	}
	truth = outcome(m, improved);
	if (truth < 0 || (stated != truth && (stated != OUTCOME_OK || !message_timed(m))))
		object(c->o, RULE_OUTCOME, c->i, "status",
		       "is not what compile, verify and bench %s: '%s'",
		       truth < 0 ? "can have" : "show", m->status);
	if (truth >= 0)
		m->status = word_name((enum word)truth);
	fill(c, RULE_DERIVED, "prev_best_ms", &m->prev_best_ms, prev);
	if (m->kept >= 0 && m->kept != improved)
		object(c->o, RULE_DERIVED, c->i, "kept", "is %s, not %s",
		       m->kept ? "true" : "false", improved ? "true" : "false");
	m->kept = improved;
}

/* ---- claims ---- */

/* The time of a candidate as it is known so far; objects if it is unknown. */
static double time_of(const struct court *c, const char *candidate, int *fact)
{
	*fact = replay_fact(c->past, candidate);
	if (*fact < 0) {
		object(c->o, RULE_NO_CANDIDATE, c->i, "candidate", "has not been sent: '%s'",
		       candidate);
		return NAN;
	}
	return c->past->fact[*fact].ms;
}

static const char *agent_name(const struct episode *e, int a)
{
	return a >= 0 ? e->agents[a].id : "nobody";
}

/* The agents that have a time, the best first, ties by their order. */
static int rank_agents(const struct court *c, int *order)
{
	const double *best = c->past->best;
	int n = 0, k;

	for (int a = 0; a < c->e->n_agents; a++) {
		if (isnan(best[a]))
			continue;
		for (k = n++; k > 0 && best[a] < best[order[k - 1]]; k--)
			order[k] = order[k - 1];
		order[k] = a;
	}
	return n;
}

static void check_leaderboard(const struct court *c, const struct message *m)
{
	const struct replay *past = c->past;
	int order[EP_MAX_AGENTS], n = rank_agents(c, order);
	char field[48];

	if (m->n_entries != n)
		object(c->o, RULE_LEADERBOARD, c->i, "entries",
		       "has %d items, but %d agents have a time", m->n_entries, n);
	for (int k = 0; k < m->n_entries && k < n; k++) {
		const struct entry *x = &m->entries[k];
		const char *agent = c->e->agents[order[k]].id;
		const char *candidate = past->fact[past->best_fact[order[k]]].id;
		double ms = past->best[order[k]];

		snprintf(field, sizeof field, "entries[%d]", k);
		if (x->rank != k + 1 || strcmp(x->agent, agent) ||
		    strcmp(x->candidate, candidate) || x->best_ms != ms)
			object(c->o, RULE_LEADERBOARD, c->i, field,
			       "is not rank %d, agent %s, candidate %s, best_ms %.6g", k + 1, agent,
			       candidate, ms);
	}
}

static void check_merge(const struct court *c, const struct message *m)
{
	int f;
	double ms = time_of(c, m->candidate, &f);

	if (f < 0)
		return;
	hold(c, RULE_MERGE, "best_ms", m->best_ms, ms);
	if (c->past->fact[f].author != episode_agent(c->e, m->agent))
		object(c->o, RULE_MERGE, c->i, "agent", "is not the author, %s: '%s'",
		       agent_name(c->e, c->past->fact[f].author), m->agent);
}

static void check_redirect(const struct court *c, const struct message *m)
{
	int f;

	hold(c, RULE_REDIRECT, "best_ms", m->best_ms,
	     m->candidate ? time_of(c, m->candidate, &f) : NAN);
}

static void check_handoff(const struct court *c, const struct message *m)
{
	int f, from = replay_who(c->e, m->from);
	double ms = time_of(c, m->candidate, &f);

	/* Benched, but the sender has not been told: null is then the truth. */
	if (f < 0 || (isnan(m->best_ms) && from >= 0 && !(c->past->heard_ms[f] >> from & 1)))
		return;
	hold(c, RULE_HANDOFF, "best_ms", m->best_ms, ms);
}

static void check_verify(const struct court *c, const struct message *m)
{
	int f;
	const struct message *result;

	time_of(c, m->candidate, &f);
	if (f < 0)
		return;
	if (c->past->fact[f].result < 0) {
		object(c->o, RULE_VERIFY_ORDER, c->i, "candidate", "has no result yet: '%s'",
		       m->candidate);
		return;
	}
	if (c->past->fact[f].author == episode_agent(c->e, m->from))
		object(c->o, RULE_VERIFY_ORDER, c->i, "from", "is the author: '%s'", m->from);
	result = &c->e->messages[c->past->fact[f].result];
	if (!result->verify.present)
		object(c->o, RULE_VERIFY_TRUTH, c->i, "candidate", "did not run: '%s'",
		       m->candidate);
	else if (strcmp(m->verdict, result->verify.status))
		object(c->o, RULE_VERIFY_TRUTH, c->i, "verdict", "is not the result's, %s: '%s'",
		       result->verify.status, m->verdict);
	else if (!isnan(m->ms) && !message_timed(result))
		object(c->o, RULE_VERIFY_TRUTH, c->i, "ms",
		       "is a time of a candidate that has none");
}

static void settle_verdict(const struct court *c, struct message *m)
{
	double best = c->past->team_best;
	int f;

	hold(c, RULE_VERDICT, "best_ms", m->best_ms, best);
	if (best == c->e->baseline_ms) {
		if (m->candidate)
			object(c->o, RULE_VERDICT, c->i, "candidate",
			       "is not null, yet the baseline stays the best: '%s'", m->candidate);
	} else if (!m->candidate) {
		object(c->o, RULE_VERDICT, c->i, "candidate",
		       "is null, yet the baseline is not the best");
	} else if (time_of(c, m->candidate, &f) != best) {
		object(c->o, RULE_VERDICT, c->i, "candidate", "is not the best: '%s'",
		       m->candidate);
	}
	fill(c, RULE_VERDICT, "speedup", &m->speedup, num_value(c->e->baseline_ms / best));
}

/* ---- the whole ---- */

static void settle_message(const struct court *c, struct message *m)
{
	int from = episode_agent(c->e, m->from), f;

	switch (m->kind) {
	case KIND_CANDIDATE:
		if (replay_fact(c->past, m->candidate) >= 0)
			object(c->o, RULE_CANDIDATE_ID, c->i, "candidate",
			       "has been sent before: '%s'", m->candidate);
		if (from < 0)
			object(c->o, RULE_UNDECLARED, c->i, "from", "is no agent: '%s'", m->from);
		break;
	case KIND_RESULT:
		settle_result(c, m);
		break;
	case KIND_STATUS:
		hold(c, RULE_STATUS_BEST, "best_ms", m->best_ms,
		     from >= 0 ? c->past->best[from] : NAN);
		break;
	case KIND_REVIEW:
		time_of(c, m->candidate, &f);
		break;
	case KIND_VERIFY:
		check_verify(c, m);
		break;
	case KIND_LEADERBOARD:
		check_leaderboard(c, m);
		break;
	case KIND_MERGE:
		check_merge(c, m);
		break;
	case KIND_REDIRECT:
		check_redirect(c, m);
		break;
	case KIND_HANDOFF:
		check_handoff(c, m);
		break;
	case KIND_VERDICT:
		settle_verdict(c, m);
		break;
	case KIND_PLAN:
	case KIND_DISPATCH:
	case KIND_COUNT:
		break;
	}
}

static void settle_ends(struct court *c)
{
	const struct replay *past = c->past;
	struct episode *e = c->e;
	int verdicts = 0;
	char field[32];

	for (int f = 0; f < past->n_facts; f++)
		if (past->fact[f].result < 0)
			object(c->o, RULE_NO_RESULT, past->fact[f].sent, "candidate",
			       "never gets a result: '%s'", past->fact[f].id);
	for (int i = 0; i < e->n_messages; i++)
		verdicts += e->messages[i].kind == KIND_VERDICT;
	if (verdicts != 1 || e->messages[e->n_messages - 1].kind != KIND_VERDICT)
		object(c->o, RULE_VERDICT_LAST, -1, "messages",
		       verdicts == 1 ? "does not end with the verdict"
		                     : "has not one verdict, but %d",
		       verdicts);
	c->i = -1;
	for (int a = 0; a < e->n_agents; a++) {
		struct agent *g = &e->agents[a];

		snprintf(field, sizeof field, "agents[%d].tries", a);
		fill_int(c, RULE_DERIVED, field, &g->tries, past->tries[a]);
		snprintf(field, sizeof field, "agents[%d].kept", a);
		fill_int(c, RULE_DERIVED, field, &g->kept, past->kept[a]);
		snprintf(field, sizeof field, "agents[%d].best_ms", a);
		fill(c, RULE_DERIVED, field, &g->best_ms, past->best[a]);
	}
	fill(c, RULE_DERIVED, "best_ms", &e->best_ms, past->team_best);
	fill(c, RULE_DERIVED, "speedup", &e->speedup, num_value(e->baseline_ms / past->team_best));
	fill_int(c, RULE_DERIVED, "elapsed_s", &e->elapsed_s,
	         e->n_messages ? e->messages[e->n_messages - 1].t : 0);
}

/* Pays by the stated scheme and holds the stated rewards against that. */
static void settle_rewards(struct court *c)
{
	static double stated[EP_MAX_MESSAGES], returns[EP_MAX_AGENTS];
	struct episode *e = c->e;
	double total = e->ret;
	char field[32];
	struct pay pay;
	const char *why = pay_parse(&pay, e->scheme ? e->scheme : "standard");

	if (why) {
		object(c->o, RULE_SCHEME, -1, "scheme", "is none of ours (%s): '%s'", why,
		       e->scheme);
		return;
	}
	for (int i = 0; i < e->n_messages; i++)
		stated[i] = e->messages[i].reward;
	for (int a = 0; a < e->n_agents; a++)
		returns[a] = e->agents[a].ret;
	pay_episode(e, &pay);
	for (c->i = 0; c->i < e->n_messages; c->i++)
		if (!isnan(stated[c->i]))
			hold(c, RULE_REWARD, "reward", stated[c->i], e->messages[c->i].reward);
	c->i = -1;
	for (int a = 0; a < e->n_agents; a++) {
		snprintf(field, sizeof field, "agents[%d].return", a);
		if (!isnan(returns[a]))
			hold(c, RULE_REWARD, field, returns[a], e->agents[a].ret);
	}
	if (!isnan(total))
		hold(c, RULE_REWARD, "return", total, e->ret);
}

void settle(struct episode *e, const struct objector *o)
{
	static struct replay past;
	struct court c = { e, o, &past, 0 };

	replay_start(&past, e);
	for (c.i = 0; c.i < e->n_messages; c.i++) {
		settle_message(&c, &e->messages[c.i]);
		replay_take(&past);
	}
	settle_ends(&c);
	settle_rewards(&c);
}

/* replay.c - see replay.h. */
#include "episode/replay.h"

#include <string.h>

void replay_start(struct replay *rp, const struct episode *e)
{
	rp->e = e;
	rp->n = 0;
	rp->n_facts = 0;
	rp->team_best = e->baseline_ms;
	for (int i = 0; i < EP_MAX_AGENTS; i++) {
		rp->prev_best[i] = e->baseline_ms;
		rp->best[i] = NAN;
		rp->best_fact[i] = -1;
		rp->tries[i] = rp->kept[i] = 0;
	}
}

int replay_fact(const struct replay *rp, const char *candidate)
{
	int n = 0;

	if (!candidate)
		return -1;
	/* c007 is the seventh, unless the row is a strange one. */
	for (const char *p = candidate + (*candidate == 'c'); *p >= '0' && *p <= '9' && n < 10000;
	     p++)
		n = 10 * n + (*p - '0');
	if (n >= 1 && n <= rp->n_facts && !strcmp(rp->fact[n - 1].id, candidate))
		return n - 1;
	for (int i = rp->n_facts - 1; i >= 0; i--)
		if (!strcmp(rp->fact[i].id, candidate))
			return i;
	return -1;
}

int replay_who(const struct episode *e, const char *id)
{
	if (id && !strcmp(id, "lead"))
		return WHO_LEAD;
	return episode_agent(e, id); /* -1 is WHO_NOBODY */
}

uint32_t replay_audience(const struct episode *e, const struct message *m)
{
	int from, to;
	uint32_t set = 0;

	if (!m->to)
		return ((UINT32_C(1) << e->n_agents) - 1) | UINT32_C(1) << WHO_LEAD;
	from = replay_who(e, m->from);
	to = replay_who(e, m->to);
	if (from >= 0)
		set |= UINT32_C(1) << from;
	if (to >= 0)
		set |= UINT32_C(1) << to;
	return set;
}

bool message_timed(const struct message *m)
{
	return m->kind == KIND_RESULT && m->verify.present && m->verify.status &&
	       !strcmp(m->verify.status, "pass") && m->bench.present;
}

bool message_improves(const struct message *m, double prev_best)
{
	double margin = 2 * m->bench.cv;

	if (!message_timed(m))
		return false;
	return m->bench.ms < prev_best * (1 - (margin > 0.01 ? margin : 0.01));
}

/* The audience hears of a candidate and, if ms is a number, of its time. */
static void hear(struct replay *rp, uint32_t audience, const char *candidate, double ms)
{
	int f = replay_fact(rp, candidate);

	if (f < 0)
		return;
	rp->heard[f] |= audience;
	if (!isnan(ms))
		rp->heard_ms[f] |= audience;
}

static void take_candidate(struct replay *rp, const struct message *m, uint32_t audience)
{
	int author = episode_agent(rp->e, m->from);
	struct fact *f = &rp->fact[rp->n_facts];

	if (replay_fact(rp, m->candidate) >= 0)
		return; /* sent twice: the first one counts, and somebody objects */
	*f = (struct fact){ m->candidate, author, rp->n, -1, -1, -1, NAN };
	rp->heard[rp->n_facts] = audience;
	rp->heard_ms[rp->n_facts] = 0;
	rp->n_facts++;
	if (author >= 0)
		rp->tries[author]++;
}

static void take_result(struct replay *rp, const struct message *m, uint32_t audience)
{
	int i = replay_fact(rp, m->candidate), a = episode_agent(rp->e, m->to);
	double ms = message_timed(m) ? m->bench.ms : NAN;

	hear(rp, audience, m->candidate, ms);
	if (i < 0 || a < 0 || rp->fact[i].result >= 0)
		return;
	rp->fact[i].result = rp->n;
	rp->fact[i].ms = ms;
	if (isnan(ms))
		return;
	if (message_improves(m, rp->prev_best[a])) {
		rp->kept[a]++;
		rp->prev_best[a] = ms;
	}
	if (isnan(rp->best[a]) || ms < rp->best[a]) {
		rp->best[a] = ms;
		rp->best_fact[a] = i;
	}
	if (ms < rp->team_best)
		rp->team_best = ms;
}

/* merge, redirect and handoff: whoever is told a time is measured by it from
 * now on. The sender of a handoff knows it already and is not told. */
static void take_share(struct replay *rp, const struct message *m, uint32_t audience)
{
	int to = episode_agent(rp->e, m->to);

	hear(rp, audience, m->candidate, m->best_ms);
	if (isnan(m->best_ms))
		return;
	for (int a = 0; a < rp->e->n_agents; a++)
		if ((!m->to || a == to) && m->best_ms < rp->prev_best[a])
			rp->prev_best[a] = m->best_ms;
}

void replay_take(struct replay *rp)
{
	const struct message *m = &rp->e->messages[rp->n];
	uint32_t audience = replay_audience(rp->e, m);
	int i;

	switch (m->kind) {
	case KIND_CANDIDATE:
		take_candidate(rp, m, audience);
		break;
	case KIND_RESULT:
		take_result(rp, m, audience);
		break;
	case KIND_MERGE:
	case KIND_REDIRECT:
	case KIND_HANDOFF:
		take_share(rp, m, audience);
		break;
	case KIND_LEADERBOARD:
		for (i = 0; i < m->n_entries; i++)
			hear(rp, audience, m->entries[i].candidate, m->entries[i].best_ms);
		break;
	case KIND_REVIEW:
	case KIND_VERIFY:
	case KIND_VERDICT:
		hear(rp, audience, m->candidate, m->kind == KIND_VERDICT ? m->best_ms : NAN);
		i = replay_fact(rp, m->candidate);
		if (i >= 0 && m->kind == KIND_REVIEW && rp->fact[i].reviewed < 0)
			rp->fact[i].reviewed = rp->n;
		if (i >= 0 && m->kind == KIND_VERIFY && rp->fact[i].verified < 0)
			rp->fact[i].verified = rp->n;
		break;
	case KIND_PLAN:
	case KIND_DISPATCH:
	case KIND_STATUS:
	case KIND_COUNT:
		break;
	}
	rp->n++;
}

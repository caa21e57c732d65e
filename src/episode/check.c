/* check.c - who may speak when, of what, and a candidate's life. */
#include "episode/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "episode/schema.h"
#include "episode/walk.h"
#include "episode/write.h"
#include "kernels/kernel.h"
#include "ops/holdout.h"

/* ---- the team ---- */

static void check_agents(const struct episode *e, const struct objector *o)
{
	char want[16], field[32];

	for (int a = 0; a < e->n_agents; a++) {
		const struct agent *g = &e->agents[a];
		int role = word_find(SET_ROLE, g->role);

		snprintf(want, sizeof want, "a%02d", a + 1);
		snprintf(field, sizeof field, "agents[%d].id", a);
		if (strcmp(g->id, want))
			object(o, RULE_AGENT_ID, -1, field, "is not %s: '%s'", want, g->id);
		snprintf(field, sizeof field, "agents[%d].role", a);
		if (role < 0 || role == ROLE_LEAD || role == ROLE_ENV)
			object(o, RULE_WORD, -1, field, "is no specialist's role: '%s'", g->role);
		snprintf(field, sizeof field, "agents[%d].skill", a);
		if (!(g->skill >= 0 && g->skill <= 1))
			object(o, RULE_SKILL, -1, field, "is not in 0 to 1: %.9g", g->skill);
		if (g->skill != num_value(g->skill))
			object(o, RULE_DIGITS, -1, field, "has more than 9 significant digits");
	}
}

static int count_role(const struct episode *e, enum word role)
{
	int n = 0;

	for (int a = 0; a < e->n_agents; a++)
		n += !strcmp(e->agents[a].role, word_name(role));
	return n;
}

static void need_roles(const struct episode *e, const struct objector *o, enum word role, int n)
{
	if (count_role(e, role) != n)
		object(o, RULE_SCENARIO_ROLES, -1, "agents", "has %d of role %s, but %s needs %d",
		       count_role(e, role), word_name(role), e->scenario, n);
}

/* A scenario without a line here may have any roles. */
static void check_roles(const struct episode *e, const struct objector *o)
{
	int n = e->n_agents;

	if (!strcmp(e->scenario, "dispatch") || !strcmp(e->scenario, "parallel_sweep")) {
		need_roles(e, o, ROLE_WORKER, n);
	} else if (!strcmp(e->scenario, "pipeline")) {
		need_roles(e, o, ROLE_PROPOSER, 1 + (n >= 5));
		need_roles(e, o, ROLE_TUNER, (n >= 4) + (n >= 6));
		need_roles(e, o, ROLE_REVIEWER, 1);
		need_roles(e, o, ROLE_VERIFIER, 1);
	} else if (!strcmp(e->scenario, "campaign")) {
		need_roles(e, o, ROLE_WORKER, n - 1);
		if (strcmp(e->agents[n - 1].role, word_name(ROLE_VERIFIER)))
			object(o, RULE_SCENARIO_ROLES, -1, "agents",
			       "does not end with the verifier that campaign needs");
	}
}

/* ---- who speaks to whom ---- */

enum party { LEAD, ENV, AGENT, ALL, REVIEWER, VERIFIER, AUTHOR };

static const struct {
	enum party from, to;
} parties[KIND_COUNT] = {
	[KIND_PLAN] = { LEAD, ALL },        [KIND_DISPATCH] = { LEAD, AGENT },
	[KIND_CANDIDATE] = { AUTHOR, ENV }, [KIND_RESULT] = { ENV, AGENT },
	[KIND_STATUS] = { AGENT, LEAD },    [KIND_REVIEW] = { REVIEWER, AGENT },
	[KIND_VERIFY] = { VERIFIER, LEAD }, [KIND_LEADERBOARD] = { ENV, LEAD },
	[KIND_MERGE] = { LEAD, ALL },       [KIND_REDIRECT] = { LEAD, AGENT },
	[KIND_HANDOFF] = { AGENT, AGENT },  [KIND_VERDICT] = { LEAD, ALL },
};

static const char *const party_names[] = {
	[LEAD] = "the lead",
	[ENV] = "env",
	[AGENT] = "an agent",
	[ALL] = "everybody",
	[REVIEWER] = "a reviewer",
	[VERIFIER] = "a verifier",
	[AUTHOR] = "a worker, proposer or tuner",
};

static bool is_party(const struct episode *e, enum party p, const char *id)
{
	int a = episode_agent(e, id), role = a >= 0 ? word_find(SET_ROLE, e->agents[a].role) : -1;

	switch (p) {
	case LEAD:
		return id && !strcmp(id, "lead");
	case ENV:
		return id && !strcmp(id, "env");
	case ALL:
		return !id;
	case AGENT:
		return a >= 0;
	case REVIEWER:
		return role == ROLE_REVIEWER;
	case VERIFIER:
		return role == ROLE_VERIFIER;
	case AUTHOR:
		return role == ROLE_WORKER || role == ROLE_PROPOSER || role == ROLE_TUNER;
	}
	return false;
}

static bool declared(const struct episode *e, const char *id)
{
	return is_party(e, LEAD, id) || is_party(e, ENV, id) || episode_agent(e, id) >= 0;
}

static void check_parties(struct walk *w, const struct message *m)
{
	const struct episode *e = w->e;
	int a = episode_agent(e, m->from);
	const char *role = a >= 0 ? e->agents[a].role : m->from;

	if (!declared(e, m->from))
		object(w->o, RULE_UNDECLARED, w->i, "from", "is not declared: '%s'", m->from);
	else if (strcmp(m->role, role))
		object(w->o, RULE_ROLE, w->i, "role", "is not the sender's, %s: '%s'", role,
		       m->role);
	else if (!is_party(e, parties[m->kind].from, m->from))
		object(w->o, RULE_ROLE, w->i, "from", "is not %s, which a %s needs: '%s'",
		       party_names[parties[m->kind].from], kind_name(m->kind), m->from);
	if (m->to && !declared(e, m->to))
		object(w->o, RULE_UNDECLARED, w->i, "to", "is not declared: '%s'", m->to);
	else if (!is_party(e, parties[m->kind].to, m->to))
		object(w->o, RULE_ROLE, w->i, "to", "is not %s, which a %s needs: '%s'",
		       party_names[parties[m->kind].to], kind_name(m->kind),
		       m->to ? m->to : "null");
	else if (m->to && !strcmp(m->to, m->from))
		object(w->o, RULE_ROLE, w->i, "to", "is the sender itself: '%s'", m->to);
}

/* ---- variants and parameters ---- */

static const struct kernel *find_kernel(struct walk *w, const char *field, const char *variant)
{
	const struct task *t = &w->e->task;
	const struct kernel *k = kernel_find(t->op->name, t->impl == IMPL_TRITON, variant);

	if (!k)
		object(w->o, RULE_PARAMS, w->i, field, "is no variant of %s: '%s'", t->op->name,
		       variant);
	return k;
}

static void check_param(struct walk *w, const struct kernel *k, const char *field, const char *name,
                        const int64_t *values, int n)
{
	int p = kernel_param_index(k, name);

	if (p < 0) {
		object(w->o, RULE_PARAMS, w->i, field, "has '%s', which %s has not", name,
		       k->variant);
		return;
	}
	for (int i = 0; i < n; i++) {
		bool legal = false;

		for (int v = 0; v < k->params[p].n; v++)
			legal |= k->params[p].value[v] == values[i];
		if (!legal)
			object(w->o, RULE_PARAMS, w->i, field,
			       "gives %s the value %" PRId64 ", which %s does not list", name,
			       values[i], k->variant);
	}
	if (!n)
		object(w->o, RULE_PARAMS, w->i, field, "gives %s no value", name);
}

static void check_params(struct walk *w, const struct message *m)
{
	const struct kernel *k = find_kernel(w, "variant", m->variant);

	if (!k)
		return;
	if (m->kind == KIND_CANDIDATE) {
		for (int i = 0; i < m->params.n; i++)
			check_param(w, k, "params", m->params.key[i], &m->params.value[i], 1);
		if (m->params.n != k->n_params)
			object(w->o, RULE_PARAMS, w->i, "params",
			       "has %d parameters, but %s has %d", m->params.n, k->variant,
			       k->n_params);
	} else {
		for (int i = 0; i < m->region.n; i++)
			check_param(w, k, "region", m->region.key[i], m->region.value[i],
			            m->region.count[i]);
	}
}

/* ---- a candidate's life ---- */

static bool seen(const struct walk *w, int fact, int who)
{
	return who < 0 || w->past.heard[fact] >> who & 1;
}

/* What a message names must have been sent, and its sender have seen it. Not
 * sent at all is settle's matter. */
static void check_seen(struct walk *w, const char *field, const char *candidate, enum rule rule)
{
	int f = replay_fact(&w->past, candidate);
	const char *from = w->e->messages[w->i].from;

	if (f >= 0 && !seen(w, f, replay_who(w->e, from)))
		object(w->o, rule, w->i, field, "is %s, which %s has not seen", candidate, from);
}

static void check_candidate(struct walk *w, const struct message *m)
{
	int author = episode_agent(w->e, m->from);
	char want[16];

	snprintf(want, sizeof want, "c%03d", w->past.n_facts + 1);
	if (strcmp(m->candidate, want))
		object(w->o, RULE_CANDIDATE_ID, w->i, "candidate", "is not %s: '%s'", want,
		       m->candidate);
	if (m->parent && replay_fact(&w->past, m->parent) < 0)
		object(w->o, RULE_PARENT, w->i, "parent", "has not been sent: '%s'", m->parent);
	else if (m->parent)
		check_seen(w, "parent", m->parent, RULE_PARENT);
	if (author >= 0 && w->mend[author] >= 0) {
		const char *failed = w->past.fact[w->mend[author]].id;

		if (!m->parent || strcmp(m->parent, failed))
			object(w->o, RULE_REVIEWED_PARENT, w->i, "parent",
			       "is not %s, whose review failed: '%s'", failed,
			       m->parent ? m->parent : "null");
		w->mend[author] = -1;
	}
	check_params(w, m);
	walk_source(w, m);
}

static void check_review(struct walk *w, const struct message *m)
{
	int f = replay_fact(&w->past, m->candidate), author;

	if (word_find(SET_VERDICT, m->verdict) < 0)
		object(w->o, RULE_WORD, w->i, "verdict", "is no known word: '%s'", m->verdict);
	if (f < 0)
		return;
	author = w->past.fact[f].author;
	check_seen(w, "candidate", m->candidate, RULE_UNSEEN);
	if (w->past.fact[f].result >= 0)
		object(w->o, RULE_REVIEW_ORDER, w->i, "candidate", "has its result already: '%s'",
		       m->candidate);
	if (w->past.fact[f].reviewed >= 0)
		object(w->o, RULE_REVIEW_ORDER, w->i, "candidate", "has been reviewed before: '%s'",
		       m->candidate);
	if (author != episode_agent(w->e, m->to))
		object(w->o, RULE_ROLE, w->i, "to", "is not the author of %s: '%s'", m->candidate,
		       m->to ? m->to : "null");
	else if (author >= 0 && m->verdict && !strcmp(m->verdict, "fail"))
		w->mend[author] = f;
}

static void check_verify(struct walk *w, const struct message *m)
{
	if (word_find(SET_VERDICT, m->verdict) < 0)
		object(w->o, RULE_WORD, w->i, "verdict", "is no known word: '%s'", m->verdict);
	check_seen(w, "candidate", m->candidate, RULE_UNSEEN);
	if (m->trials < 1)
		object(w->o, RULE_RANGE, w->i, "trials", "is not positive: %" PRId64, m->trials);
	if (m->max_abs_err < 0 || m->max_rel_err < 0)
		object(w->o, RULE_RANGE, w->i, "max_abs_err", "or max_rel_err is negative");
	if (m->ms < task_floor_ms(&w->e->task))
		object(w->o, RULE_PEAK, w->i, "ms", "is below the floor of %s, %.6g ms",
		       w->e->task.gpu->name, task_floor_ms(&w->e->task));
}

/* A message that passes a candidate on: seen, and its time too. */
static void check_share(struct walk *w, const struct message *m)
{
	int f = replay_fact(&w->past, m->candidate), who = replay_who(w->e, m->from);

	if (f < 0)
		return;
	check_seen(w, "candidate", m->candidate, RULE_UNSEEN);
	if (!isnan(m->best_ms) && who >= 0 && !(w->past.heard_ms[f] >> who & 1))
		object(w->o, RULE_UNSEEN, w->i, "best_ms",
		       "is the time of %s, which %s has not seen", m->candidate, m->from);
}

/* ---- the plan ---- */

static void check_agent_name(struct walk *w, const char *field, const char *agent)
{
	if (episode_agent(w->e, agent) < 0)
		object(w->o, RULE_UNDECLARED, w->i, field, "is not declared: '%s'", agent);
}

static void check_plan(struct walk *w, const struct message *m)
{
	char field[40];

	if (w->i > 0)
		object(w->o, RULE_PLAN, w->i, "kind", "is a plan behind the first message");
	for (int k = 0; k < m->n_assignments; k++) {
		snprintf(field, sizeof field, "assignments[%d].agent", k);
		check_agent_name(w, field, m->assignments[k].agent);
		snprintf(field, sizeof field, "assignments[%d].variant", k);
		find_kernel(w, field, m->assignments[k].variant);
		snprintf(field, sizeof field, "assignments[%d].tries", k);
		if (m->assignments[k].tries < 1)
			object(w->o, RULE_BUDGET, w->i, field, "is not positive");
	}
	if (m->budget.tries < 1 || m->budget.deadline_s < 1)
		object(w->o, RULE_BUDGET, w->i, "budget", "is not positive");
}

/* ---- the walk ---- */

static void check_kind(struct walk *w, const struct message *m)
{
	char field[40];

	switch (m->kind) {
	case KIND_PLAN:
		check_plan(w, m);
		break;
	case KIND_DISPATCH:
		check_params(w, m);
		if (m->tries < 1)
			object(w->o, RULE_BUDGET, w->i, "tries", "is not positive: %" PRId64,
			       m->tries);
		break;
	case KIND_CANDIDATE:
		check_candidate(w, m);
		break;
	case KIND_RESULT:
		walk_result(w, m);
		break;
	case KIND_STATUS:
		if (m->tries_left < 0)
			object(w->o, RULE_BUDGET, w->i, "tries_left", "is negative: %" PRId64,
			       m->tries_left);
		break;
	case KIND_REVIEW:
		check_review(w, m);
		break;
	case KIND_VERIFY:
		check_verify(w, m);
		break;
	case KIND_LEADERBOARD:
		for (int k = 0; k < m->n_entries; k++) {
			snprintf(field, sizeof field, "entries[%d].agent", k);
			check_agent_name(w, field, m->entries[k].agent);
		}
		break;
	case KIND_MERGE:
		check_agent_name(w, "agent", m->agent);
		check_share(w, m);
		break;
	case KIND_REDIRECT:
		check_params(w, m);
		check_share(w, m);
		break;
	case KIND_HANDOFF:
		check_share(w, m);
		break;
	case KIND_VERDICT:
		check_share(w, m);
		if (isnan(m->speedup) || isnan(m->reward))
			object(w->o, RULE_UNSCORED, w->i, "speedup", "or reward is null");
		break;
	case KIND_COUNT:
		break;
	}
}

/* The times that a message's fields show to its audience. */
static void learn_times(struct walk *w, const struct message *m)
{
	uint32_t audience = replay_audience(w->e, m);

	walk_time(w, m->best_ms, audience);
	walk_time(w, m->prev_best_ms, audience);
	walk_time(w, m->ms, audience);
	if (m->kind == KIND_RESULT && m->bench.present)
		walk_time(w, m->bench.ms, audience);
	for (int k = 0; k < m->n_entries; k++)
		walk_time(w, m->entries[k].best_ms, audience);
}

static void check_message(struct walk *w, const struct message *m)
{
	const struct message *before = w->i ? m - 1 : NULL;
	int outcome = m->kind == KIND_RESULT ? word_find(SET_OUTCOME, m->status) : -1;

	if (m->step != w->i)
		object(w->o, RULE_STEP, w->i, "step", "is %" PRId64 ", not %d", m->step, w->i);
	if (m->t < (before ? before->t : 0))
		object(w->o, RULE_TIME_BACK, w->i, "t", "falls from %" PRId64 " to %" PRId64,
		       before ? before->t : 0, m->t);
	if (word_find(SET_ROLE, m->role) < 0)
		object(w->o, RULE_WORD, w->i, "role", "is no known word: '%s'", m->role);
	check_parties(w, m);
	walk_digits(w, m);
	check_kind(w, m);
	if (m->kind == KIND_RESULT &&
	    (outcome == OUTCOME_OK || m->kept < 0 || isnan(m->prev_best_ms) ||
	     isnan(m->reward) != (outcome == OUTCOME_INFRA_ERROR)))
		object(w->o, RULE_UNSCORED, w->i, "status",
		       "or what score derives from it is missing");
	/* Its own fields are known to whoever writes the text beside them. */
	if (m->kind == KIND_VERIFY || m->kind == KIND_VERDICT)
		learn_times(w, m);
	walk_text(w, m);
	learn_times(w, m);
}

static void check_row(const struct row *r, const struct episode *e, const struct objector *o)
{
	static const char *const scored[] = { "best_ms", "speedup", "elapsed_s", "scheme",
		                              "return" };
	static struct buf id;
	const char *version = json_str(json_get(r->root, "version"));
	int64_t count = json_int(json_get(r->root, "num_messages"));
	char field[32];

	buf_clear(&id);
	episode_id(e, &id);
	if (strcmp(json_str(json_get(r->root, "episode_id")), id.data))
		object(o, RULE_EPISODE_ID, -1, "episode_id", "is not '%s'", id.data);
	if (count != e->n_messages)
		object(o, RULE_COUNT, -1, "num_messages", "is %" PRId64 ", not %d", count,
		       e->n_messages);
	if (strspn(version, "0123456789.") != strlen(version) || !strchr(version, '.'))
		object(o, RULE_VERSION, -1, "version", "is no version: '%s'", version);
	if (word_find(SET_ORIGIN, e->env) < 0)
		object(o, RULE_WORD, -1, "env", "is no known word: '%s'", e->env);
	if (strcmp(e->task.split, word_name(SPLIT_TRAIN)))
		object(o, RULE_WORD, -1, "split", "is not train: '%s'", e->task.split);
	for (size_t i = 0; i < sizeof scored / sizeof scored[0]; i++)
		if (json_is_null(json_get(r->root, scored[i])))
			object(o, RULE_UNSCORED, -1, scored[i], "is null");
	for (int a = 0; a < e->n_agents; a++) {
		const struct agent *g = &e->agents[a];

		snprintf(field, sizeof field, "agents[%d]", a);
		if (g->tries == EP_NULL_INT || g->kept == EP_NULL_INT || isnan(g->ret))
			object(o, RULE_UNSCORED, -1, field, "has null for tries, kept or return");
	}
	if (e->baseline_ms != num_time(e->baseline_ms))
		object(o, RULE_DIGITS, -1, "baseline_ms", "has more than 6 significant digits");
	if (e->baseline_ms < task_floor_ms(&e->task))
		object(o, RULE_PEAK, -1, "baseline_ms", "is below the floor of %s, %.6g ms",
		       e->task.gpu->name, task_floor_ms(&e->task));
}

/* Promises of the plan, once all is said: no more tries than it has, and
 * nothing behind the deadline. */
static void check_budget(const struct walk *w)
{
	const struct episode *e = w->e;
	const struct budget *b = &e->messages[0].budget;

	if (e->messages[0].kind != KIND_PLAN) {
		object(w->o, RULE_PLAN, 0, "kind", "is no plan");
		return;
	}
	if (w->past.n_facts > b->tries)
		object(w->o, RULE_BUDGET, 0, "budget.tries", "is %" PRId64 ", but %d were used",
		       b->tries, w->past.n_facts);
	for (int f = 0; f < w->past.n_facts; f++)
		if (e->messages[w->past.fact[f].sent].t > b->deadline_s) {
			object(w->o, RULE_BUDGET, w->past.fact[f].sent, "t",
			       "is behind the deadline, %" PRId64, b->deadline_s);
			break; /* those behind it are too */
		}
	if (e->messages[e->n_messages - 1].t > b->deadline_s)
		object(w->o, RULE_BUDGET, e->n_messages - 1, "t",
		       "is behind the deadline, %" PRId64, b->deadline_s);
}

void check_episode(const struct row *r, const struct episode *e, const struct objector *o)
{
	static struct walk w;

	w.r = r;
	w.e = e;
	w.o = o;
	w.n_times = 0;
	for (int a = 0; a < EP_MAX_AGENTS; a++)
		w.mend[a] = -1;
	check_row(r, e, o);
	check_task(r, &e->task, o);
	check_agents(e, o);
	check_roles(e, o);
	if (!e->n_messages)
		return; /* settle misses the verdict */
	replay_start(&w.past, e);
	walk_time(&w, e->baseline_ms, UINT32_MAX);
	for (w.i = 0; w.i < e->n_messages; w.i++) {
		check_message(&w, &e->messages[w.i]);
		replay_take(&w.past);
	}
	check_budget(&w);
}

/* ---- tasks ---- */

static enum holdout reserved_for(const struct task *t)
{
	struct problem p = { .op = t->op, .impl = t->impl, .gpu = t->gpu, .dtype = t->dtype };

	memcpy(p.shape, t->shape, sizeof p.shape);
	return holdout_of(&p);
}

static void check_facts(const struct row *r, const struct task *t, const struct objector *o)
{
	const json *facts = json_get(json_get(r->root, "task"), "gpu_facts");
	const struct {
		const char *key;
		double value;
	} want[] = {
		{ "sms", t->gpu->sms },
		{ "peak_gbps", t->gpu->dram_gbps },
		{ "peak_tflops", task_peak_tflops(t) },
		{ "smem_per_sm", t->gpu->smem_per_sm },
	};
	char field[40];

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		const json *v = json_get(facts, want[i].key);

		snprintf(field, sizeof field, "task.gpu_facts.%s", want[i].key);
		if (v && json_num(v) != num_value(want[i].value))
			object(o, RULE_VALUE, -1, field, "is %.9g, not %.9g as %s has", json_num(v),
			       want[i].value, t->gpu->name);
	}
}

static void check_task_id(const struct task *t, const struct objector *o)
{
	char want[64];

	snprintf(want, sizeof want, "%s_%06" PRId64, t->split, t->index);
	if (strcmp(t->task_id, want))
		object(o, RULE_TASK_ID, -1, "task_id", "is not '%s'", want);
}

void check_task(const struct row *r, const struct task *t, const struct objector *o)
{
	enum holdout h = reserved_for(t);

	check_task_id(t, o);
	check_facts(r, t, o);
	if (!strcmp(t->split, word_name(SPLIT_TRAIN)) && h != HOLDOUT_NONE)
		object(o, RULE_RESERVED, -1, "split", "is train, but the task is reserved (%s)",
		       holdout_name(h));
}

void check_holdout(const struct row *r, const struct task *t, const struct objector *o)
{
	const char *held = json_str(json_get(r->root, "holdout"));
	const char *want = holdout_name(reserved_for(t));
	double baseline = json_num(json_get(r->root, "baseline_ms"));
	double floor = json_num(json_get(r->root, "floor_ms"));

	check_task_id(t, o);
	check_facts(r, t, o);
	if (strcmp(t->split, word_name(SPLIT_HOLDOUT)))
		object(o, RULE_WORD, -1, "split", "is not holdout: '%s'", t->split);
	if (!want || strcmp(held, want))
		object(o, RULE_RESERVED, -1, "holdout", "is not %s: '%s'",
		       want ? want : "reserved at all", held);
	if (floor != task_floor_ms(t))
		object(o, RULE_FLOOR, -1, "floor_ms", "is %.9g, not %.9g", floor, task_floor_ms(t));
	if (baseline < floor)
		object(o, RULE_PEAK, -1, "baseline_ms", "is below floor_ms");
	if (baseline != num_time(baseline))
		object(o, RULE_DIGITS, -1, "baseline_ms", "has more than 6 significant digits");
}

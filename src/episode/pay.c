/* pay.c - see pay.h. A new scheme is a row of `schemes`. */
#include "episode/pay.h"

#include <string.h>

#include "base/die.h"
#include "base/num.h"
#include "episode/replay.h"
#include "episode/schema.h"

/* What a rule may look at: the past, the scheme's weights, the task. */
struct case_ {
	const struct episode *e;
	const struct replay *past; /* the message itself not yet taken */
	const double *w;
	double floor_ms;
};

struct scheme {
	const char *name, *what, *source;
	double weight[W_COUNT];
	double (*result)(const struct case_ *c, const struct message *m); /* verified, timed */
	double (*verdict)(const struct case_ *c, const struct message *m);
};

static double at_most(double x, double limit)
{
	return x < limit ? x : limit;
}

/* ---- rules ---- */

static double standard_result(const struct case_ *c, const struct message *m)
{
	if (m->kept != 1)
		return c->w[W_NO_IMPROVEMENT];
	return at_most(c->w[W_GAIN] * num_log2(m->prev_best_ms / m->bench.ms), c->w[W_CLIP]);
}

static double speedup_verdict(const struct case_ *c, const struct message *m)
{
	return c->w[W_VERDICT] * num_log2(m->speedup);
}

static double team_result(const struct case_ *c, const struct message *m)
{
	if (!(m->bench.ms < c->past->team_best))
		return c->w[W_NO_IMPROVEMENT];
	return c->w[W_GAIN] * num_log2(c->past->team_best / m->bench.ms);
}

static double ladder_result(const struct case_ *c, const struct message *m)
{
	double speed = c->w[W_GAIN] * (c->e->baseline_ms / m->bench.ms);

	return c->w[W_CORRECT] + at_most(speed, c->w[W_CLIP]);
}

/* 1 at the speed of light, 1/2 at the baseline, towards 0 behind it. */
static double light(const struct case_ *c, double ms)
{
	double gap = c->e->baseline_ms - c->floor_ms;

	if (ms <= c->floor_ms)
		return 1;
	if (gap <= 0)
		return 0;
	return 1 / (1 + (ms - c->floor_ms) / gap);
}

static double light_result(const struct case_ *c, const struct message *m)
{
	return c->w[W_GAIN] * light(c, m->bench.ms);
}

static double light_verdict(const struct case_ *c, const struct message *m)
{
	return c->w[W_VERDICT] * light(c, m->best_ms);
}

/* ---- the table ---- */

static const char *const weight_names[W_COUNT] = {
	[W_GAIN] = "gain",
	[W_CLIP] = "clip",
	[W_CORRECT] = "correct",
	[W_VERDICT] = "verdict",
	[W_NO_IMPROVEMENT] = "no_improvement",
	[W_COMPILE_ERROR] = "compile_error",
	[W_UNSUPPORTED_ARCH] = "unsupported_arch",
	[W_WRONG_RESULT] = "wrong_result",
	[W_LAUNCH_ERROR] = "launch_error",
	[W_CRASHED] = "crashed",
	[W_TIMEOUT] = "timeout",
};

/* gain, clip, correct, verdict | no improvement, compile error, unsupported
 * arch, wrong result | launch error, crashed, timeout */
static const struct scheme schemes[] = {
	{ "standard",
	  "improved: min(clip, gain*log2(prev_best_ms/ms)); verdict: verdict*log2(speedup)",
	  "this project (README, Rewards)",
	  { 1, 1, NAN, 0.25, -0.05, -0.1, -0.05, -0.3, -0.1, -0.3, -0.3 },
	  standard_result,
	  speedup_verdict },
	{ "team",
	  "a new team best: gain*log2(team best before/ms); sums to log2(speedup)/4",
	  "this project (README, Rewards); potential-based shaping, Ng, Harada, Russell, ICML 1999",
	  { 0.25, NAN, NAN, 0, 0, 0, 0, 0, 0, 0, 0 },
	  team_result,
	  speedup_verdict },
	{ "ladder",
	  "verified: correct + min(clip, gain*baseline_ms/ms), whoever was faster before",
	  "Kevin: Multi-Turn RL for Generating CUDA Kernels, arXiv 2507.11948 (0.3 + speedup)",
	  { 1, 1000000, 0.3, 0, NAN, 0, 0, 0, 0, 0, 0 },
	  ladder_result,
	  speedup_verdict },
	{ "light",
	  "verified: gain/(1 + (ms-floor)/(baseline_ms-floor)), in 0 to 1; verdict: the same of best_ms",
	  "SOL-ExecBench, arXiv 2603.19173 (SOL score; floor: compulsory work at peak rates)",
	  { 1, NAN, NAN, 1, NAN, 0, 0, 0, 0, 0, 0 },
	  light_result,
	  light_verdict },
};

bool pay_list(int i, const char **name, const char **what, const char **source)
{
	if (i < 0 || i >= (int)(sizeof schemes / sizeof schemes[0]))
		return false;
	if (name)
		*name = schemes[i].name;
	if (what)
		*what = schemes[i].what;
	if (source)
		*source = schemes[i].source;
	return true;
}

const char *weight_name(enum weight w)
{
	return weight_names[w];
}

/* ---- names ---- */

const char *pay_weight(struct pay *p, const char *text, size_t n)
{
	char item[64], *value;
	double x;

	if (n >= sizeof item)
		return "weight is too long";
	memcpy(item, text, n);
	item[n] = '\0';
	value = strchr(item, '=');
	if (!value)
		return "weight is not KEY=VALUE";
	*value++ = '\0';
	if (!num_parse_double(value, &x) || !isfinite(x) || fabs(x) > 1e6)
		return "weight is no number";
	for (int w = 0; w < W_COUNT; w++)
		if (!strcmp(weight_names[w], item)) {
			if (isnan(p->scheme->weight[w]))
				return "the scheme has no such weight";
			p->weight[w] = num_value(x);
			return NULL;
		}
	return "unknown weight";
}

const char *pay_parse(struct pay *p, const char *text)
{
	size_t n = strcspn(text, ":");
	const char *why = NULL;

	p->scheme = NULL;
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
		if (strlen(schemes[i].name) == n && !strncmp(schemes[i].name, text, n))
			p->scheme = &schemes[i];
	if (!p->scheme)
		return "unknown scheme";
	memcpy(p->weight, p->scheme->weight, sizeof p->weight);
	text += n;
	while (!why && *text) {
		text++; /* ':' or ',' */
		n = strcspn(text, ",");
		why = pay_weight(p, text, n);
		text += n;
	}
	return why;
}

void pay_print(const struct pay *p, struct buf *out)
{
	char mark = ':';

	buf_str(out, p->scheme->name);
	for (int w = 0; w < W_COUNT; w++)
		if (!isnan(p->weight[w]) && !(p->weight[w] == p->scheme->weight[w])) {
			buf_printf(out, "%c%s=%.9g", mark, weight_names[w], p->weight[w]);
			mark = ',';
		}
}

/* ---- an episode ---- */

static double pay_result(const struct case_ *c, const struct pay *p, const struct message *m)
{
	switch (word_find(SET_OUTCOME, m->status)) {
	case OUTCOME_IMPROVED:
	case OUTCOME_NO_IMPROVEMENT:
		return num_value(p->scheme->result(c, m));
	case OUTCOME_COMPILE_ERROR:
		return p->weight[W_COMPILE_ERROR];
	case OUTCOME_UNSUPPORTED_ARCH:
		return p->weight[W_UNSUPPORTED_ARCH];
	case OUTCOME_WRONG_RESULT:
		return p->weight[W_WRONG_RESULT];
	case OUTCOME_LAUNCH_ERROR:
		return p->weight[W_LAUNCH_ERROR];
	case OUTCOME_CRASHED:
		return p->weight[W_CRASHED];
	case OUTCOME_TIMEOUT:
		return p->weight[W_TIMEOUT];
	default: /* infra_error: nobody's doing */
		return NAN;
	}
}

void pay_episode(struct episode *e, const struct pay *p)
{
	static struct replay past;
	struct case_ c = { e, &past, p->weight, task_floor_ms(&e->task) };
	double lead = 0, sum;

	for (int i = 0; i < e->n_agents; i++)
		e->agents[i].ret = 0;
	replay_start(&past, e);
	for (int i = 0; i < e->n_messages; i++) {
		struct message *m = &e->messages[i];
		int to = episode_agent(e, m->to);

		if (m->kind == KIND_RESULT) {
			m->reward = pay_result(&c, p, m);
			if (to >= 0 && !isnan(m->reward))
				e->agents[to].ret += m->reward;
		} else if (m->kind == KIND_VERDICT) {
			m->reward = num_value(p->scheme->verdict(&c, m));
			lead = m->reward;
		}
		replay_take(&past);
	}
	sum = lead;
	for (int i = 0; i < e->n_agents; i++) {
		e->agents[i].ret = num_value(e->agents[i].ret);
		sum += e->agents[i].ret;
	}
	e->ret = num_value(sum);
}

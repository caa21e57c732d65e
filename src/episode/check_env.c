/* check_env.c - what env says of a candidate: possible numbers, and the same
 * ones for the same source. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "episode/schema.h"
#include "episode/walk.h"

/* ---- digits ---- */

static void check_digits(struct walk *w, const char *prefix, const struct field *f, int n,
                         const void *base)
{
	char field[48];

	for (int k = 0; k < n; k++) {
		bool time = f[k].type == FT_TIME || f[k].type == FT_NTIME;
		const void *at = (const char *)base + f[k].offset;
		double x;

		if (!time && f[k].type != FT_NUM && f[k].type != FT_NNUM)
			continue;
		x = *(const double *)at;
		if (isnan(x) || x == (time ? num_time(x) : num_value(x)))
			continue;
		snprintf(field, sizeof field, "%s%s", prefix, f[k].key);
		object(w->o, RULE_DIGITS, w->i, field, "has more than %d significant digits",
		       time ? 6 : 9);
	}
}

void walk_digits(struct walk *w, const struct message *m)
{
	int n;
	const struct field *f = schema_kind(m->kind, &n);

	check_digits(w, "", f, n, m);
	if (m->kind != KIND_RESULT)
		return;
	if (m->verify.present) {
		f = schema_part(FT_VERIFY, &n);
		check_digits(w, "verify.", f, n, &m->verify);
	}
	if (m->bench.present) {
		f = schema_part(FT_BENCH, &n);
		check_digits(w, "bench.", f, n, &m->bench);
	}
}

/* ---- a result ---- */

static void need_word(struct walk *w, enum word_set set, const char *field, const char *value)
{
	if (value && word_find(set, value) < 0)
		object(w->o, RULE_WORD, w->i, field, "is no known word: '%s'", value);
}

static void check_compile(struct walk *w, const struct message *m)
{
	const struct compile *c = &m->compile;
	bool ok = c->status && !strcmp(c->status, "ok");

	need_word(w, SET_COMPILED, "compile.status", c->status);
	if (ok != (c->registers != EP_NULL_INT) || ok != (c->smem_bytes != EP_NULL_INT) ||
	    ok != (c->spill_bytes != EP_NULL_INT))
		object(w->o, RULE_RANGE, w->i, "compile",
		       "has resources if and only if status is ok");
	if (!ok && !c->log)
		object(w->o, RULE_RANGE, w->i, "compile.log", "is null for a failed compilation");
	if (ok && (c->registers < 1 || c->registers > 255))
		object(w->o, RULE_RANGE, w->i, "compile.registers", "is not in 1 to 255: %" PRId64,
		       c->registers);
	if (ok && (c->smem_bytes < 0 || c->smem_bytes > w->e->task.gpu->smem_per_block))
		object(w->o, RULE_RANGE, w->i, "compile.smem_bytes", "is not in 0 to %d: %" PRId64,
		       w->e->task.gpu->smem_per_block, c->smem_bytes);
	if (ok && c->spill_bytes < 0)
		object(w->o, RULE_RANGE, w->i, "compile.spill_bytes", "is negative");
}

static void check_verify(struct walk *w, const struct message *m)
{
	const struct verify *v = &m->verify;
	bool pass = v->status && !strcmp(v->status, "pass");

	need_word(w, SET_VERDICT, "verify.status", v->status);
	need_word(w, SET_REASON, "verify.reason", v->reason);
	if (pass == (v->reason != NULL))
		object(w->o, RULE_RANGE, w->i, "verify.reason",
		       "is null if and only if status is pass");
	if (v->max_abs_err < 0 || v->max_rel_err < 0)
		object(w->o, RULE_RANGE, w->i, "verify", "has a negative error");
}

/* a is b up to 6 digits. */
static bool about(double a, double b)
{
	return fabs(a - b) <= 1e-5 * fabs(b);
}

static void check_rates(struct walk *w, const struct message *m)
{
	const struct task *t = &w->e->task;
	const struct bench *b = &m->bench;
	double gbps = (double)task_bytes(t) / b->ms / 1e6;
	double tflops = (double)task_flops(t) / b->ms / 1e9;
	double unseen = 0; /* bytes that may still be in L2 when the clock stops */

	if (!about(b->gbps, gbps))
		object(w->o, RULE_RATE, w->i, "bench.gbps",
		       "is %.9g, not compulsory bytes / ms, %.9g", b->gbps, gbps);
	if (!about(b->tflops, tflops))
		object(w->o, RULE_RATE, w->i, "bench.tflops", "is %.9g, not operations / ms, %.9g",
		       b->tflops, tflops);
	if (w->e->env && !strcmp(w->e->env, "measured")) {
		double l2 = t->gpu->l2_mb * 1e6, out = (double)t->op->bytes_out(t->shape, t->dtype);

		unseen = (out < l2 ? out : l2) / b->ms / 1e6;
	}
	if (gbps - unseen > t->gpu->dram_gbps)
		object(w->o, RULE_PEAK, w->i, "bench.gbps", "is above the peak of %s, %.9g",
		       t->gpu->name, t->gpu->dram_gbps);
	if (tflops > task_peak_tflops(t))
		object(w->o, RULE_PEAK, w->i, "bench.tflops", "is above the peak of %s, %.9g",
		       t->gpu->name, task_peak_tflops(t));
}

static void check_bench(struct walk *w, const struct message *m)
{
	const struct bench *b = &m->bench;
	bool simulated = !w->e->env || strcmp(w->e->env, "measured");

	check_rates(w, m);
	need_word(w, SET_LIMITER, "bench.limiter", b->limiter);
	if (!(b->cv >= 0 && b->cv < 1))
		object(w->o, RULE_RANGE, w->i, "bench.cv", "is not in 0 to 1: %.9g", b->cv);
	if (!isnan(b->occupancy) && !(b->occupancy > 0 && b->occupancy <= 1))
		object(w->o, RULE_RANGE, w->i, "bench.occupancy", "is not in 0 to 1: %.9g",
		       b->occupancy);
	if (simulated && (isnan(b->occupancy) || !b->limiter))
		object(w->o, RULE_MEASURED_ONLY, w->i, "bench",
		       "has null where a simulation has a value");
}

/* The same (task, source) runs the same. */
static void check_same(struct walk *w, const struct message *m)
{
	int f = replay_fact(&w->past, m->candidate);

	for (int k = 0; f >= 0 && k < w->past.n_facts; k++) {
		const struct message *other;

		if (k == f || w->source[k] != w->source[f] || w->past.fact[k].result < 0)
			continue;
		other = &w->e->messages[w->past.fact[k].result];
		if (strcmp(other->compile.status, m->compile.status) ||
		    other->verify.present != m->verify.present ||
		    other->bench.present != m->bench.present ||
		    (m->bench.present && other->bench.ms != m->bench.ms)) {
			object(w->o, RULE_SAME_MS, w->i, "candidate",
			       "has the source of %s and another result: '%s'", w->past.fact[k].id,
			       m->candidate);
			return;
		}
	}
}

void walk_result(struct walk *w, const struct message *m)
{
	int outcome = word_find(SET_OUTCOME, m->status);

	need_word(w, SET_OUTCOME, "status", m->status);
	check_compile(w, m);
	if (m->verify.present)
		check_verify(w, m);
	if (m->bench.present)
		check_bench(w, m);
	if (outcome >= OUTCOME_LAUNCH_ERROR && w->e->env && strcmp(w->e->env, "measured"))
		object(w->o, RULE_MEASURED_ONLY, w->i, "status", "cannot be simulated: '%s'",
		       m->status);
	if (!w->e->env || strcmp(w->e->env, "measured"))
		check_same(w, m);
}

/*
 * stats.c - what a set of episodes looks like, as one object.
 *
 * Counting is exact and commutes: --partial prints what has been counted so
 * far, --merge adds such parts up.
 */
#include <stddef.h>
#include <string.h>

#include "base/die.h"
#include "base/opt.h"
#include "episode/read.h"
#include "episode/schema.h"
#include "episode/tally.h"
#include "model/move.h"
#include "row/row.h"

static bool partial, merge;

static struct message messages[EP_MAX_MESSAGES];

/* The parameters in the kernel's order; false if they are none of its own. */
static bool find_params(const struct problem *p, const struct message *m, const struct kernel **k,
                        int64_t *params)
{
	*k = kernel_find(p->op->name, p->impl == IMPL_TRITON, m->variant);
	if (!*k)
		return false;
	config_preset(*k, params);
	for (int i = 0; i < m->params.n; i++) {
		int at = kernel_param_index(*k, m->params.key[i]);

		if (at < 0)
			return false;
		params[at] = m->params.value[i];
	}
	return true;
}

static enum tally_move classify(const struct problem *p, const struct episode *e,
                                const struct message *m, const char *limiter)
{
	const struct message *parent = episode_candidate(e, m->parent);
	const struct kernel *from = NULL, *to;
	int64_t from_params[KERNEL_MAX_PARAMS], to_params[KERNEL_MAX_PARAMS];

	if (!find_params(p, m, &to, to_params) ||
	    (parent && !find_params(p, parent, &from, from_params)))
		return TALLY_UNKNOWN;
	switch (move_classify(p, limiter, from, from_params, to, to_params)) {
	case MOVE_AGAINST:
		return TALLY_AGAINST;
	case MOVE_OTHER:
		return TALLY_OTHER;
	case MOVE_UNKNOWN:
		break;
	}
	return TALLY_UNKNOWN;
}

/* Each candidate is judged by what its author had last been told. */
static void take_moves(const struct episode *e)
{
	const char *limiter[EP_MAX_AGENTS] = { NULL };
	enum tally_move open[EP_MAX_AGENTS]; /* of the candidate without a result */
	const char *sent[EP_MAX_AGENTS] = { NULL };
	struct problem p = {
		.op = e->task.op, .impl = e->task.impl, .gpu = e->task.gpu, .dtype = e->task.dtype
	};

	memcpy(p.shape, e->task.shape, sizeof p.shape);
	for (int i = 0; i < e->n_messages; i++) {
		const struct message *m = &e->messages[i];
		int a = episode_agent(e, m->kind == KIND_CANDIDATE ? m->from : m->to);

		if (a < 0)
			continue;
		if (m->kind == KIND_CANDIDATE) {
			open[a] = classify(&p, e, m, limiter[a]);
			sent[a] = m->candidate;
		} else if (m->kind == KIND_RESULT && sent[a] && !strcmp(sent[a], m->candidate)) {
			tally_move(open[a], m->kept == 1);
			if (m->bench.present)
				limiter[a] = m->bench.limiter;
		}
	}
}

static void take(struct row *r)
{
	struct episode e = { .messages = messages };

	if (merge) {
		tally_read(r);
		return;
	}
	episode_read(r, &e, NULL);
	tally_take(r, &e);
	take_moves(&e);
}

static int finish(void)
{
	struct row r = { .file = "-" };

	r.root = partial ? tally_write(&r) : tally_report();
	row_emit(&r);
	json_free(r.root);
	return EX_DONE;
}

static const struct opt opts[] = {
	{ 'p', "partial", OPT_FLAG, &partial, NULL, "print the form that --merge adds up", 0, 0,
	  NULL },
	{ 'm', "merge", OPT_FLAG, &merge, NULL, "the input is partial forms, not episodes", 0, 0,
	  NULL },
	{ 0, NULL, OPT_FLAG, NULL, NULL, NULL, 0, 0, NULL },
};

int main(int argc, char **argv)
{
	static const struct filter f = {
		.program = {
			.name = "stats",
			.summary = "Aggregates scored episodes into one object.",
			.input = "scored episode rows; with --merge, partial forms",
			.output = "one object: counts, shares, correlations, the winning variants",
			.opts = opts,
			.notes = "texts.repeats, distinct_* and sources.* rest on the 4096 smallest hashes:\n"
			         "exact up to 4096 different items, 1.6 % standard error beyond.\n"
			         "texts.largest_skeleton is an upper bound (numbers masked), rewards.counts\n"
			         "begin at `from` in steps of `bin`, their outer bins hold what is beyond.",
		},
		.row = take,
		.finish = finish,
	};

	return filter_main(&f, argc, argv);
}

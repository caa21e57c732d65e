/*
 * score.c - the referee: what an episode adds up to.
 *
 * Derives every aggregate from the raw results, refuses a row that claims
 * something else, and pays the standard scheme.
 */
#include <stddef.h>

#include "base/buf.h"
#include "base/die.h"
#include "episode/pay.h"
#include "episode/read.h"
#include "episode/settle.h"
#include "episode/write.h"
#include "row/row.h"

static struct message messages[EP_MAX_MESSAGES];

static void refuse(void *arg, enum rule rule, const char *path, const char *what)
{
	(void)rule;
	row_fail(arg, "field '%s' %s", path, what);
}

static void score(struct row *r)
{
	struct objector o = { refuse, r };
	struct episode e = { .messages = messages };
	struct pay pay;

	episode_read(r, &e, NULL);
	settle(&e, &o);
	if (pay_parse(&pay, "standard"))
		bug("no standard scheme");
	pay_episode(&e, &pay);
	e.scheme = "standard";
	episode_write_back(r, &e);
	row_emit(r);
}

static const struct opt opts[] = {
	{ 0, NULL, OPT_FLAG, NULL, NULL, NULL, 0, 0, NULL },
};

int main(int argc, char **argv)
{
	static const struct filter f = {
		.program = {
			.name = "score",
			.summary = "Derives what episodes add up to and pays the standard scheme.",
			.input = "episode rows, scored or not",
			.output = "the same rows with status, prev_best_ms, kept, rewards and aggregates",
			.opts = opts,
			.notes = "A row whose claims (leaderboard, merge, redirect, handoff, status, verify,\n"
			         "verdict, or a value already filled in) do not follow from its raw results\n"
			         "is refused. Scoring a scored row changes nothing.",
		},
		.row = score,
	};

	return filter_main(&f, argc, argv);
}

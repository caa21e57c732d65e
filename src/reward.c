/*
 * reward.c - pays the scheme asked for: re-labels scored episodes without
 * simulating anything again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/opt.h"
#include "base/out.h"
#include "episode/pay.h"
#include "episode/read.h"
#include "episode/write.h"
#include "row/row.h"

static const char *scheme = "standard", *weights;
static bool list;

static struct message messages[EP_MAX_MESSAGES];
static struct pay pay;
static struct buf label, given; /* given: the weights, comma separated */

static const char *check_scheme(const char *name)
{
	struct pay p;

	return pay_parse(&p, name);
}

/* --weight may come several times and before --scheme: kept until start. */
static const char *keep_weight(const char *item)
{
	if (given.len)
		buf_char(&given, ',');
	buf_str(&given, item);
	return strchr(item, '=') ? NULL : "weight is not KEY=VALUE";
}

/* A table of the schemes, and no row read. */
static _Noreturn void print_schemes(void)
{
	const char *name, *what, *source;
	struct buf out = { 0 };

	for (int i = 0; pay_list(i, &name, &what, &source); i++) {
		struct pay p;
		char mark = ' ';

		if (pay_parse(&p, name))
			bug("scheme '%s' does not parse", name);
		buf_printf(&out, "%s\n  pays     %s\n  source   %s\n  weights ", name, what,
		           source);
		for (int w = 0; w < W_COUNT; w++)
			if (!isnan(p.weight[w])) {
				buf_printf(&out, "%c%s=%.9g", mark, weight_name((enum weight)w),
				           p.weight[w]);
				mark = ',';
			}
		buf_char(&out, '\n');
	}
	out_write(out.data, out.len);
	out_close();
	exit(EX_DONE);
}

static void start(void)
{
	if (list)
		print_schemes();
	(void)pay_parse(&pay, scheme);
	for (const char *s = given.data; s && *s;) {
		size_t n = strcspn(s, ",");
		const char *why = pay_weight(&pay, s, n);

		if (why)
			opt_usage("--weight: %s '%.*s'", why, (int)n, s);
		s += n + (s[n] == ',');
	}
	pay_print(&pay, &label);
}

static void reward(struct row *r)
{
	struct episode e = { .messages = messages };

	episode_read(r, &e, NULL);
	for (int i = 0; i < e.n_messages; i++) {
		const struct message *m = &messages[i];

		if ((m->kind == KIND_RESULT && (m->kept < 0 || isnan(m->prev_best_ms))) ||
		    (m->kind == KIND_VERDICT && isnan(m->speedup)))
			row_fail(r, "row is not scored: messages[%d] has null where score fills",
			         i);
		if (m->kind == KIND_VERDICT && !(m->speedup > 1e-12 && m->speedup < 1e12))
			row_fail(r, "field 'messages[%d].speedup' is out of range", i);
	}
	pay_episode(&e, &pay);
	e.scheme = label.data;
	episode_write_back(r, &e);
	row_emit(r);
}

static const struct opt opts[] = {
	{ 's', "scheme", OPT_STR, &scheme, "NAME", "pay this scheme", 0, 0, check_scheme },
	{ 'w', "weight", OPT_LIST, &weights, "KEY=VALUE,...",
	  "change constants of the scheme (may be repeated)", 0, 0, keep_weight },
	{ 0, "list", OPT_FLAG, &list, NULL, "print the schemes, their sources and weights", 0, 0,
	  NULL },
	{ 0, NULL, OPT_FLAG, NULL, NULL, NULL, 0, 0, NULL },
};

int main(int argc, char **argv)
{
	static const struct filter f = {
		.program = {
			.name = "reward",
			.summary = "Pays a reward scheme, nothing else: re-labels scored episodes.",
			.input = "scored episode rows",
			.output = "the same rows with reward, return and scheme of the scheme asked for",
			.opts = opts,
			.notes = "The standard scheme changes no byte of a row that score has paid. A row's\n"
			         "`scheme` is the scheme's name and the weights that differ from its own,\n"
			         "such as standard:clip=2; that text is a NAME, too.",
		},
		.row = reward,
		.start = start,
	};

	return filter_main(&f, argc, argv);
}

/*
 * lint.c - whether rows keep the rules of their format: prints every violation as
 * "file:line: path: what [rule]" and nothing else.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/opt.h"
#include "base/out.h"
#include "episode/census.h"
#include "episode/check.h"
#include "episode/features.h"
#include "episode/read.h"
#include "episode/rules.h"
#include "episode/settle.h"
#include "row/row.h"

static bool census, is_default, rules;
static const char *schema;
static int64_t indent;

static struct message messages[EP_MAX_MESSAGES];
static int64_t violations;

/* ---- violations ---- */

static void say(void *arg, enum rule rule, const char *path, const char *what)
{
	static struct buf line;
	const struct row *r = arg; /* NULL: the census */

	buf_clear(&line);
	if (r)
		buf_printf(&line, "%s:%" PRId64 ": ", r->file, r->line);
	else
		buf_str(&line, "census: ");
	buf_printf(&line, "%s%s%s [%s]", path, *path ? ": " : "", what, rule_name(rule));
	/* Names come from the row: a violation stays one printable line. */
	for (size_t i = 0; i < line.len; i++)
		if ((unsigned char)line.data[i] < 0x20)
			line.data[i] = '?';
	buf_char(&line, '\n');
	out_write(line.data, line.len);
	violations++;
}

static void say_fault(void *arg, enum read_fault fault, const char *path, const char *what)
{
	static const enum rule rule[] = {
		[READ_MISSING] = RULE_MISSING,     [READ_TYPE] = RULE_TYPE,
		[READ_VALUE] = RULE_VALUE,         [READ_UNKNOWN_KEY] = RULE_UNKNOWN_KEY,
		[READ_KEY_ORDER] = RULE_KEY_ORDER,
	};

	say(arg, rule[fault], path, what);
}

/* ---- rows ---- */

static void lint_episode(struct row *r)
{
	struct episode e = { .messages = messages };
	struct read_faults faults = { say_fault, r };
	struct objector o = { say, r };

	if (episode_read(r, &e, &faults))
		return; /* what it means cannot be told */
	check_episode(r, &e, &o);
	settle(&e, &o);
	if (census)
		census_take(&e, json_str(json_get(r->root, "episode_id")), r->line);
}

static void lint_holdout(struct row *r)
{
	struct read_faults faults = { say_fault, r };
	struct objector o = { say, r };
	struct task t;

	if (!holdout_read(r, &t, &faults))
		check_holdout(r, &t, &o);
}

static void lint(struct row *r)
{
	if (json_get(r->root, "messages"))
		lint_episode(r);
	else if (json_get(r->root, "holdout"))
		lint_holdout(r);
	else
		say(r, RULE_MISSING, "",
		    "is neither an episode (messages) nor a hold-out task (holdout)");
}

/* ---- what needs no row ---- */

static const char *check_schema(const char *name)
{
	return strcmp(name, "episodes") && strcmp(name, "holdout") ? "no config of ours" : NULL;
}

static void start(void)
{
	struct buf out = { 0 };

	if (is_default && !census)
		opt_usage("--default needs --census");
	if (!schema && !rules)
		return;
	if (schema)
		features_yaml(strcmp(schema, "holdout") ? FT_EPISODE : FT_HOLDOUT, (int)indent,
		              &out);
	for (int i = 0; rules && i < N_RULES; i++)
		buf_printf(&out, "%-16s %s\n", rule_name((enum rule)i), rule_text((enum rule)i));
	out_write(out.data, out.len);
	out_close();
	exit(EX_DONE);
}

static int finish(void)
{
	struct objector o = { say, NULL };

	if (census)
		census_close(&o, is_default);
	return violations ? EX_ROW : EX_DONE;
}

static const struct opt opts[] = {
	{ 'c', "census", OPT_FLAG, &census, NULL, "rules over the whole input, too", 0, 0, NULL },
	{ 0, "default", OPT_FLAG, &is_default, NULL,
	  "with --census: the input is the default build, within its bounds", 0, 0, NULL },
	{ 0, "schema", OPT_STR, &schema, "CONFIG",
	  "print the features of episodes or holdout as YAML; no row is read", 0, 0, check_schema },
	{ 0, "indent", OPT_INT, &indent, "N", "of --schema, in spaces", 0, 40, NULL },
	{ 0, "rules", OPT_FLAG, &rules, NULL, "list the rules; no row is read", 0, 0, NULL },
	{ 0, NULL, OPT_FLAG, NULL, NULL, NULL, 0, 0, NULL },
};

int main(int argc, char **argv)
{
	static const struct filter f = {
		.program = {
			.name = "lint",
			.summary = "Checks published rows against the rules of their format.",
			.input = "scored episode rows and hold-out rows",
			.output = "a line for each violation, file:line: path: what [rule]; none is good",
			.opts = opts,
			.notes = "Exit 1 if there is any violation.",
		},
		.row = lint,
		.start = start,
		.finish = finish,
	};

	return filter_main(&f, argc, argv);
}

/* opt.c - one table drives the parsing, the checks and the help of a program. */
#include "base/opt.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/num.h"
#include "base/out.h"
#include "base/version.h"

bool opt_quiet;
const char *opt_library;

/* Every program's own last rows. */
static bool want_help, want_version;
static const struct opt common[] = {
	{ 'q', "quiet", OPT_FLAG, &opt_quiet, NULL, "no progress on stderr", 0, 0, NULL },
	{ 'V', "version", OPT_FLAG, &want_version, NULL, "print the version and exit", 0, 0, NULL },
	{ 'h', "help", OPT_FLAG, &want_help, NULL, "print this help and exit", 0, 0, NULL },
	{ 0, NULL, OPT_FLAG, NULL, NULL, NULL, 0, 0, NULL },
};

enum { MAX_OPTS = 64 };

void opt_usage(const char *fmt, ...)
{
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	warn("%s", what);
	die(EX_USAGE_, "try '%s --help'", die_program());
}

/* --- help and version ---------------------------------------------------- */

static void add_default(struct buf *out, const struct opt *o)
{
	const char *s;

	switch (o->type) {
	case OPT_FLAG:
		break;
	case OPT_INT:
		/* A default out of bounds stands for "not given". */
		if (*(int64_t *)o->value >= o->min && *(int64_t *)o->value <= o->max)
			buf_printf(out, " (default %" PRId64 ")", *(int64_t *)o->value);
		break;
	case OPT_SEED:
		buf_printf(out, " (default %" PRIu64 ")", *(uint64_t *)o->value);
		break;
	case OPT_STR:
	case OPT_LIST:
		s = *(const char **)o->value;
		if (s)
			buf_printf(out, " (default %s)", *s ? s : "''");
		break;
	case OPT_NUM:
		if (*(double *)o->value >= (double)o->min && *(double *)o->value <= (double)o->max)
			buf_printf(out, " (default %g)", *(double *)o->value);
		break;
	}
}

static void add_name(struct buf *out, const struct opt *o)
{
	if (o->short_name)
		buf_printf(out, "  -%c, --%s", o->short_name, o->name);
	else
		buf_printf(out, "      --%s", o->name);
	if (o->arg)
		buf_printf(out, " %s", o->arg);
}

static void add_options(struct buf *out, const struct opt *opts, size_t width)
{
	const struct opt *o;

	for (o = opts; o && o->name; o++) {
		size_t from = out->len;

		add_name(out, o);
		while (out->len - from < width)
			buf_char(out, ' ');
		buf_str(out, o->help);
		add_default(out, o);
		buf_char(out, '\n');
	}
}

static size_t name_width(const struct opt *opts, size_t least)
{
	const struct opt *o;
	struct buf name = { 0 };

	for (o = opts; o && o->name; o++) {
		buf_clear(&name);
		add_name(&name, o);
		if (name.len + 2 > least)
			least = name.len + 2;
	}
	buf_free(&name);
	return least;
}

static _Noreturn void print_and_exit(struct buf *text)
{
	out_write(text->data, text->len);
	out_close();
	buf_free(text);
	exit(EX_DONE);
}

static _Noreturn void help(const struct program *p, bool operands)
{
	struct buf out = { 0 };
	size_t width = name_width(common, name_width(p->opts, 0));

	buf_printf(&out, "usage: %s [options]%s\n\n", p->name,
	           p->input || operands ? " [FILE...]" : "");
	buf_printf(&out, "%s\n\n", p->summary);
	buf_printf(&out, "input:  %s\n", p->input ? p->input : "none");
	buf_printf(&out, "output: %s\n\n", p->output ? p->output : "none");
	buf_str(&out, "options:\n");
	add_options(&out, p->opts, width);
	add_options(&out, common, width);
	if (p->notes)
		buf_printf(&out, "\n%s\n", p->notes);
	buf_str(&out, "\nexit codes: 0 done, 1 bad row or violation, 2 usage,\n"
	              "            3 cannot read, write or allocate, 4 a bug of ours\n");
	print_and_exit(&out);
}

static _Noreturn void version(const struct program *p)
{
	struct buf out = { 0 };

	buf_printf(&out, "%s %s (", p->name, KS_VERSION);
#if defined(__clang__)
	buf_printf(&out, "clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
	buf_printf(&out, "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
	buf_str(&out, "unknown compiler");
#endif
	if (opt_library)
		buf_printf(&out, ", %s", opt_library);
	buf_str(&out, ")\n");
	print_and_exit(&out);
}

/* --- values --------------------------------------------------------------- */

static bool parse_scaled(const char *s, int64_t *out)
{
	char text[40];
	size_t n = strlen(s);
	int64_t scale = 1, x;

	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, s, n + 1);
	switch (text[n - 1]) {
	case 'k':
		scale = 1000;
		break;
	case 'M':
		scale = 1000 * 1000;
		break;
	case 'G':
		scale = 1000 * 1000 * 1000;
		break;
	}
	if (scale > 1)
		text[n - 1] = '\0';
	return num_parse_i64(text, &x) && num_mul(x, scale, out);
}

static void check_item(const struct opt *o, const char *item)
{
	const char *what = o->check ? o->check(item) : NULL;

	if (what)
		opt_usage("--%s: %s '%s'", o->name, what, item);
}

static void check_list(const struct opt *o, const char *list)
{
	char *copy = xstrdup(list), *item = copy, *comma;

	do {
		comma = strchr(item, ',');
		if (comma)
			*comma = '\0';
		if (!*item)
			opt_usage("--%s: empty item in '%s'", o->name, list);
		check_item(o, item);
		item = comma ? comma + 1 : NULL;
	} while (item);
	free(copy);
}

static void set_value(const struct opt *o, const char *arg)
{
	int64_t i;
	double x;

	switch (o->type) {
	case OPT_FLAG:
		*(bool *)o->value = true;
		return;
	case OPT_INT:
		if (!parse_scaled(arg, &i))
			opt_usage("--%s: no integer '%s'", o->name, arg);
		if (i < o->min || i > o->max)
			opt_usage("--%s: not within %" PRId64 " and %" PRId64 " '%s'", o->name,
			          o->min, o->max, arg);
		*(int64_t *)o->value = i;
		return;
	case OPT_SEED:
		if (!num_parse_u64(arg, (uint64_t *)o->value))
			opt_usage("--%s: no 64-bit number '%s'", o->name, arg);
		return;
	case OPT_STR:
		check_item(o, arg);
		*(const char **)o->value = arg;
		return;
	case OPT_LIST:
		check_list(o, arg);
		*(const char **)o->value = arg;
		return;
	case OPT_NUM:
		if (!num_parse_double(arg, &x))
			opt_usage("--%s: no number '%s'", o->name, arg);
		if (x < (double)o->min || x > (double)o->max)
			opt_usage("--%s: not within %" PRId64 " and %" PRId64 " '%s'", o->name,
			          o->min, o->max, arg);
		*(double *)o->value = x;
		return;
	}
}

/* --- parsing -------------------------------------------------------------- */

int opt_parse(const struct program *p, int argc, char **argv, bool operands)
{
	const struct opt *table[MAX_OPTS], *o;
	struct option longs[MAX_OPTS + 1];
	char shorts[2 * MAX_OPTS + 2] = ":";
	size_t n = 0, k = 1, i;
	int c, chosen = 0;

	die_init(argc > 0 ? argv[0] : p->name);
	out_start();
	/* The environment must not change what a command line means. */
	unsetenv("POSIXLY_CORRECT");
	for (o = p->opts; o && o->name; o++) {
		if (n >= MAX_OPTS - 3)
			bug("too many options");
		table[n++] = o;
	}
	for (o = common; o->name; o++)
		table[n++] = o;
	for (i = 0; i < n; i++) {
		o = table[i];
		longs[i] = (struct option){
			o->name,
			o->type == OPT_FLAG ? no_argument : required_argument,
			&chosen,
			(int)i,
		};
		if (o->short_name) {
			shorts[k++] = (char)o->short_name;
			if (o->type != OPT_FLAG)
				shorts[k++] = ':';
		}
	}
	longs[n] = (struct option){ 0 };
	shorts[k] = '\0';

	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == ':')
			opt_usage("option needs a value '%s'", argv[optind - 1]);
		if (c == '?') {
			/* optopt: a short option, or a flag given "=value". */
			if (optopt && optopt < 256 && strncmp(argv[optind - 1], "--", 2) != 0)
				opt_usage("unknown option '-%c'", optopt);
			if (strchr(argv[optind - 1], '='))
				opt_usage("unknown option or surplus value '%s'", argv[optind - 1]);
			opt_usage("unknown option '%s'", argv[optind - 1]);
		}
		if (c) {
			for (i = 0; i < n && table[i]->short_name != c; i++)
				;
			chosen = (int)i;
		}
		set_value(table[chosen], optarg);
		if (want_help)
			help(p, operands);
		if (want_version)
			version(p);
	}
	if (optind < argc && !p->input && !operands)
		opt_usage("surplus argument '%s'", argv[optind]);
	return optind;
}

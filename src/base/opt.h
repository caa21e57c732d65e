/*
 * opt.h - one table drives the parsing, the checks and the help of a program.
 *
 * Every program also answers -h/--help (stdout, exit 0), -V/--version and
 * -q/--quiet. An unknown option, a missing or surplus argument or a value out
 * of bounds is "program: MESSAGE" plus "try 'program --help'" and exit 2.
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include <stdbool.h>
#include <stdint.h>

enum opt_type {
	OPT_FLAG, /* bool */
	OPT_INT,  /* int64_t within [min, max]; takes k, M, G (powers of 1000) */
	OPT_SEED, /* uint64_t, decimal or 0x hexadecimal */
	OPT_STR,  /* const char *, pointing into argv */
	OPT_LIST, /* const char *, comma separated; `check` is asked per item */
	OPT_NUM   /* double within [min, max], finite */
};

struct opt {
	int short_name;   /* 'n', or 0 */
	const char *name; /* "count" */
	enum opt_type type;
	void *value;      /* holds the default, shown by --help */
	const char *arg;  /* "N"; NULL for a flag */
	const char *help; /* one line, lower case */
	int64_t min, max; /* OPT_INT and OPT_NUM */
	/* OPT_STR and OPT_LIST: NULL if the item is good, else what is wrong
	 * with it ("unknown op"), printed as: --ops: unknown op 'x'. */
	const char *(*check)(const char *item);
};

struct program {
	const char *name;
	const char *summary;    /* what its one job is, one sentence */
	const char *input;      /* what a row on stdin is; NULL: reads nothing */
	const char *output;     /* what is printed */
	const struct opt *opts; /* ended by a row without a name */
	const char *notes;      /* further help text, or NULL */
};

/* Set by -q. */
extern bool opt_quiet;
/* What --version names beside the compiler, "cJSON 1.7.15". The json facade
 * sets it before main in every program that links it; otherwise NULL. */
extern const char *opt_library;

/* Parses argv by the table with getopt_long, handles -h, -V, -q and errors.
 * Also starts the program: die_init, out_start (SIGPIPE, a large stdout buffer).
 * -h shows defaults; one outside [min, max], or NULL, means "not given".
 * Returns the index of the first operand. Operands are allowed only if
 * p->input is set (they are files) or `operands` is true. */
int opt_parse(const struct program *p, int argc, char **argv, bool operands);

/* Dies (exit 2) with the message and the "try" line. */
_Noreturn void opt_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

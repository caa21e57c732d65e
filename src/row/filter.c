/* filter.c - the whole main of a filter. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/out.h"
#include "row/loop.h"
#include "row/progress.h"
#include "row/reader.h"
#include "row/row.h"

static bool keep_going;
static const char *rejects_path;
static FILE *rejects;
static bool rejected; /* at least one row */

static const struct opt row_opts[] = {
	{ 0, "keep-going", OPT_FLAG, &keep_going, NULL,
	  "set bad rows aside, go on, exit 1 at the end", 0, 0, NULL },
	{ 0, "rejects", OPT_STR, &rejects_path, "FILE", "where --keep-going writes the bad rows", 0,
	  0, NULL },
};

/* The filter's own options, then the two above. */
static int parse_options(const struct filter *f, int argc, char **argv)
{
	struct program p = f->program;
	struct opt opts[64] = { { 0 } };
	size_t n = 0;

	for (; p.opts && p.opts[n].name; n++) {
		if (n + 3 > sizeof(opts) / sizeof(*opts))
			bug("too many options");
		opts[n] = p.opts[n];
	}
	opts[n] = row_opts[0];
	opts[n + 1] = row_opts[1];
	p.opts = opts;
	return opt_parse(&p, argc, argv, true);
}

static void open_rejects(void)
{
	if (keep_going != (rejects_path != NULL))
		opt_usage("--keep-going and --rejects belong together");
	if (!rejects_path)
		return;
	rejects = fopen(rejects_path, "w");
	if (!rejects)
		die_errno("cannot write '%s'", rejects_path);
}

static void reject(const char *line, size_t len)
{
	rejected = true;
	if (line && (fwrite(line, 1, len, rejects) != len || putc('\n', rejects) == EOF))
		die_errno("cannot write '%s'", rejects_path);
}

static void close_rejects(void)
{
	if (rejects && (fflush(rejects) || ferror(rejects) || fclose(rejects)))
		die_errno("cannot write '%s'", rejects_path);
}

static void fail_too_long(const struct row *r)
{
	if (rejects)
		row_fail(r, "row is longer than 2 MB, not written to '%s'", rejects_path);
	row_fail(r, "row is longer than 2 MB");
}

/* Statics, not locals, hold what must survive row_fail's jump. */
static void run_file(const struct filter *f, const char *path)
{
	static struct reader *rd;
	static struct row row;
	static const char *line;
	static size_t len;
	static jmp_buf jump;
	bool newline;
	enum reader_got got;

	rd = reader_open(path);
	while ((got = reader_next(rd, &line, &len, &newline)) != READER_END) {
		row_reset();
		row = (struct row){ .file = path, .line = reader_lineno(rd) };
		if (got == READER_TOO_LONG)
			line = NULL;
		if (rejects && setjmp(jump)) {
			reject(line, len);
		} else {
			if (rejects)
				row_catch = &jump;
			if (!line)
				fail_too_long(&row);
			row_parse(&row, line, len, newline);
			f->row(&row);
		}
		json_free(row.root);
		progress_row();
	}
	row_catch = NULL;
	reader_close(rd);
}

int filter_main(const struct filter *f, int argc, char **argv)
{
	int first = parse_options(f, argc, argv);
	int code = EX_DONE;

	if (f->start)
		f->start();
	open_rejects();
	if (first == argc && isatty(STDIN_FILENO))
		opt_usage("no input: stdin is a terminal");
	progress_start(-1);
	if (first == argc)
		run_file(f, "-");
	for (; first < argc; first++)
		run_file(f, argv[first]);
	progress_end();
	if (f->finish)
		code = f->finish();
	close_rejects();
	out_close();
	return code ? code : rejected ? EX_ROW : EX_DONE;
}

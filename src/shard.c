/*
 * shard - cuts a stream of rows into numbered files and joins them again.
 *
 *	shard --split --size N --dir DIR [--prefix batch_] [--force] [FILE...]
 *	shard --join FILE...
 *
 * --split puts every N rows into DIR/batch_000.jsonl, DIR/batch_001.jsonl, ...,
 * each written beside its name and renamed when whole. --join prints the rows of
 * the files again, byte for byte, and refuses whatever --split and the data
 * build would not have made: an index that does not follow the last one, an
 * episode_id that came before, a last line without its end.
 *
 * Exit: 0 done, 1 a bad row, 2 usage, 3 cannot read or write.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/opt.h"
#include "base/out.h"
#include "row/progress.h"
#include "row/row.h"

static bool want_split, want_join, force;
static int64_t size = 100;
static const char *dir;
static const char *prefix = "batch_";

static const char *check_prefix(const char *s)
{
	return *s && !strchr(s, '/') ? NULL : "no beginning of a file name";
}

static const struct opt opts[] = {
	{ 0, "split", OPT_FLAG, &want_split, NULL, "cut the stream into files", 0, 0, NULL },
	{ 0, "join", OPT_FLAG, &want_join, NULL, "print the files again in order", 0, 0, NULL },
	{ 0, "size", OPT_INT, &size, "N", "rows per file", 1, 1000000000, NULL },
	{ 0, "dir", OPT_STR, &dir, "DIR", "where --split writes, made if need be", 0, 0, NULL },
	{ 0, "prefix", OPT_STR, &prefix, "TEXT", "file names before the number", 0, 0,
	  check_prefix },
	{ 0, "force", OPT_FLAG, &force, NULL, "replace existing files", 0, 0, NULL },
	{ 0, NULL, OPT_FLAG, NULL, NULL, NULL, 0, 0, NULL },
};

static const struct program shard = {
	.name = "shard",
	.summary = "Cuts a stream of rows into numbered files, or joins them again in order.",
	.input = "--split: any rows; --join: files of rows whose 'index' counts on by one",
	.output = "--split: DIR/batch_000.jsonl, ...; --join: the same rows",
	.opts = opts,
	.notes = "--join refuses a gap, a wrong order, a repeated episode_id and a torn last line.",
};

/* --- split ---------------------------------------------------------------- */

/* The file being filled. */
static FILE *out;
static struct buf name, temp;
static int64_t n_files;

/* A bad row or a full disk ends the program anywhere: leave no half file. */
static void remove_temp(void)
{
	if (out)
		unlink(temp.data);
}

static void begin_file(void)
{
	static char buffer[1 << 20];

	buf_clear(&name);
	buf_printf(&name, "%s/%s%03" PRId64 ".jsonl", dir, prefix, n_files++);
	buf_clear(&temp);
	buf_printf(&temp, "%s.tmp", name.data);
	if (!force && access(name.data, F_OK) == 0)
		die(EX_IO, "file exists, try --force '%s'", name.data);
	out = fopen(temp.data, "w");
	if (!out)
		die_errno("cannot write '%s'", temp.data);
	setvbuf(out, buffer, _IOFBF, sizeof(buffer));
}

static void end_file(void)
{
	FILE *f = out;

	if (fflush(f) || ferror(f))
		die_errno("cannot write '%s'", temp.data);
	if (fclose(f))
		die_errno("cannot write '%s'", temp.data);
	if (rename(temp.data, name.data))
		die_errno("cannot rename '%s'", temp.data);
	out = NULL;
}

static void split_file(const char *path, int64_t *rows)
{
	struct reader *rd = reader_open(path);
	const char *line;
	size_t len;
	bool torn;

	while ((line = reader_line(rd, &len, &torn))) {
		if (!out)
			begin_file();
		if (fwrite(line, 1, len, out) != len || putc('\n', out) == EOF)
			die_errno("cannot write '%s'", temp.data);
		if (++*rows % size == 0)
			end_file();
		progress_row();
	}
	reader_close(rd);
}

static void split(char **files)
{
	int64_t rows = 0;

	if (mkdir(dir, 0777) && errno != EEXIST)
		die_errno("cannot make '%s'", dir);
	atexit(remove_temp);
	if (!*files)
		split_file("-", &rows);
	for (; *files; files++)
		split_file(*files, &rows);
	if (out)
		end_file();
}

/* --- join ----------------------------------------------------------------- */

/* The ids so far, by hash: open addressing, 0 is a free place. Two of a million
 * ids share a hash once in 10^7 runs, and then a good file is refused. */
static uint64_t *ids;
static size_t n_ids, cap_ids; /* a power of two */

static bool add_id(uint64_t h);

static void grow_ids(void)
{
	uint64_t *old = ids;
	size_t n = cap_ids, i;

	cap_ids = n ? 2 * n : 1024;
	ids = xmalloc(cap_ids * sizeof(*ids));
	memset(ids, 0, cap_ids * sizeof(*ids));
	n_ids = 0;
	for (i = 0; i < n; i++)
		if (old[i])
			add_id(old[i]);
	free(old);
}

/* False if it is there already. */
static bool add_id(uint64_t h)
{
	size_t i;

	h += !h;
	if (2 * n_ids >= cap_ids)
		grow_ids();
	for (i = h & (cap_ids - 1); ids[i]; i = (i + 1) & (cap_ids - 1))
		if (ids[i] == h)
			return false;
	ids[i] = h;
	n_ids++;
	return true;
}

static int64_t index_of(const struct row *r, const struct reader *rd)
{
	size_t len, i;
	const char *s = reader_member(rd, "index", &len);
	int64_t x = 0;

	if (!s)
		row_fail(r, "missing field 'index'");
	for (i = 0; i < len && i < 15 && s[i] >= '0' && s[i] <= '9'; i++)
		x = x * 10 + (s[i] - '0');
	if (i < len)
		row_fail(r, "field 'index' is no integer '%s'", row_show(s, len));
	return x;
}

static void check_row(const struct row *r, const struct reader *rd)
{
	static int64_t next = -1; /* -1: the first row says where it begins */
	int64_t index = index_of(r, rd);
	const char *id;
	size_t len;

	if (next >= 0 && index > next)
		row_fail(r, "gap: index %" PRId64 " is missing before '%" PRId64 "'", next, index);
	if (next >= 0 && index < next)
		row_fail(r, "wrong order: index %" PRId64 " should come, not '%" PRId64 "'", next,
		         index);
	next = index + 1;
	/* Task rows have none. */
	id = reader_member(rd, "episode_id", &len);
	if (id && !add_id(hash_bytes(id, len, 0)))
		row_fail(r, "repeated episode_id '%s'", row_show(id, len));
}

static void join_file(const char *path)
{
	struct reader *rd = reader_open(path);
	const char *line;
	size_t len;
	bool torn;

	while ((line = reader_line(rd, &len, &torn))) {
		struct row r = { .file = path, .line = reader_lineno(rd) };

		/* A whole object, but whoever wrote it ends each with a newline:
		 * it was not done. */
		if (torn)
			row_fail(&r, "torn last line '%s'", row_show(line, len));
		check_row(&r, rd);
		out_write(line, len);
		out_write("\n", 1);
		progress_row();
	}
	reader_close(rd);
}

int main(int argc, char **argv)
{
	int first = opt_parse(&shard, argc, argv, true);

	if (want_split == want_join)
		opt_usage("one of --split and --join is needed");
	if (want_split && !dir)
		opt_usage("--split needs --dir");
	if (want_split && first == argc && isatty(STDIN_FILENO))
		opt_usage("no input: stdin is a terminal");
	if (want_join && first == argc)
		opt_usage("--join needs files");
	progress_start(-1);
	if (want_split)
		split(argv + first);
	else
		for (; first < argc; first++)
			join_file(argv[first]);
	progress_end();
	out_close();
	return EX_DONE;
}

/*
 * row.h - rows in, rows out: the loop that every filter runs.
 *
 * A line is scanned as bytes before cJSON sees it: over 2 MB, over 50 000
 * values, deeper than 32, bad UTF-8, a control byte, an escaped NUL is a bad
 * row; after it, text behind the object, a duplicate key, a non-finite number,
 * a row that is no object. Strings of 256 bytes or more (kernel sources) are
 * not given to cJSON: they stay validated spans of the input line, stand in
 * the tree as short marks, and are printed back byte for byte.
 */
#ifndef ROW_ROW_H
#define ROW_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/opt.h"
#include "row/json.h"

enum {
	ROW_MAX_BYTES = 2 * 1000 * 1000,
	ROW_MAX_VALUES = 50000,
	ROW_MAX_DEPTH = 32,
	ROW_MAX_NUMBER = 63
};

/* One row. Valid inside the row function only. */
struct row {
	const char *file; /* "-" for stdin */
	int64_t line;     /* 1-based */
	json *root;       /* an object; belongs to the row. A filter may replace it
	                     by another root (the old one is the filter's then). */
};

/*
 * A bad row: "program: file:line: MESSAGE" on stderr. Does not return: the
 * loop sets the row aside (--keep-going --rejects FILE) or exits 1. Memory that
 * the row function allocated is lost; use the row's tree, static buffers or the
 * arena.
 */
_Noreturn void row_fail(const struct row *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Called, once, before a bad row ends the program: a filter that holds answers
 * back prints those of the rows before. */
extern void (*row_before_end)(void);

/*
 * Bytes as a message shows them: cut to 60, without control bytes. Valid for the
 * next three calls. row_fail does it itself to every '%s' that stands in single
 * quotes in its format, and shows a span by its text.
 */
const char *row_show(const char *bytes, size_t n);

/* Memory until the end of the row function; never NULL. */
void *row_alloc(size_t n);

/* Typed members; each fails the row when the key is missing ("missing field
 * 'gpu'") or has another type ("field 'gpu' is no string"). `where` is a path
 * prefix for the message, "" at the root, "messages[3]." inside. row_str also
 * gives the decoded text of a span, valid until the end of the row function. */
const char *row_str(const struct row *r, const json *obj, const char *where, const char *key);
int64_t row_int(const struct row *r, const json *obj, const char *where, const char *key,
                int64_t min, int64_t max);
double row_num(const struct row *r, const json *obj, const char *where, const char *key);
json *row_object(const struct row *r, const json *obj, const char *where, const char *key);
json *row_array(const struct row *r, const json *obj, const char *where, const char *key);

/* The decoded bytes of any string node, spans included; valid until the next
 * call of row_text or the end of the row function. */
const char *row_text(const struct row *r, const json *node, size_t *len);
/* Its bytes as they stand in the line between the quotes (escapes kept). For a
 * string that is no span this escapes it as the writer would. Same validity. */
const char *row_raw(const struct row *r, const json *node, size_t *len);
/* A new string node for n decoded bytes of text, held as a span from 256 bytes
 * on: cheap to print. The bytes must be UTF-8 without NUL. Belongs to the row's tree. */
json *row_new_text(struct row *r, const char *text, size_t n);
/* The same from bytes that are already JSON-escaped (no quotes); the memory
 * must outlive the row function's last row_emit. */
json *row_new_raw(struct row *r, const char *escaped, size_t n);
/* Appends the JSON escape of n bytes, as cJSON would print them, without
 * quotes. */
void row_escape(struct buf *out, const char *text, size_t n);

/* Prints r->root and a newline to stdout, whole or not at all. May be called
 * any number of times per row. */
void row_emit(struct row *r);
/* Prints another tree (which stays the caller's), spans of r resolved. */
void row_emit_json(struct row *r, const json *j);

/* A filter: rows in, rows out. */
struct filter {
	struct program program;
	void (*row)(struct row *r);
	/* After the options are parsed, before the first row; may be NULL. Checks
	 * that concern several options end in opt_usage. */
	void (*start)(void);
	/* After the last row, before stdout is closed; may be NULL. Returns an
	 * exit code (EX_DONE to leave it as it is). */
	int (*finish)(void);
};

/*
 * The whole main of a filter: SIGPIPE to default, options (plus --keep-going
 * and --rejects FILE), each row of stdin or the files, progress, checked close
 * of stdout, exit code. A missing final newline is accepted on a whole object;
 * a torn last line is a bad row by itself. Blank lines are bad rows.
 */
int filter_main(const struct filter *f, int argc, char **argv);

/* For a program that makes rows from nothing (taskgen): a row with an empty
 * object as root whose messages carry no file. `total` is for the ETA, -1 when
 * unknown. source_close checks stdout and returns the exit code. */
void source_open(struct row *r, int64_t total);
void source_next(struct row *r); /* frees the old root, makes a new one, counts */
int source_close(struct row *r);

/* For shard and stats: read rows from given files without the filter loop.
 * Dies on a bad row. */
struct reader;
struct reader *reader_open(const char *path); /* "-" is stdin; dies on failure */
/* The next raw line without newline, checked for size, bytes and depth but not
 * parsed; NULL at the end; *torn tells that the last line had no newline. */
const char *reader_line(struct reader *rd, size_t *len, bool *torn);
/* The value of a member of that line's object, as it stands there (a string with
 * its quotes, escapes kept); NULL if it has no such key. Dies if it has two. */
const char *reader_member(const struct reader *rd, const char *key, size_t *len);
int64_t reader_lineno(const struct reader *rd);
void reader_close(struct reader *rd);

#endif

/* row.c - a row's faults, its typed members, and its way to stdout. */
#include "row/row.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/out.h"
#include "row/check.h"
#include "row/loop.h"
#include "row/print.h"
#include "row/progress.h"
#include "row/scan.h"
#include "row/span.h"
#include "row/text.h"

jmp_buf *row_catch;
void (*row_before_end)(void);

void row_reset(void)
{
	text_reset();
	span_reset();
}

/* --- faults --------------------------------------------------------------- */

enum { SHOWN = 60 }; /* bytes of a value in a message */

/* Length of the character of valid UTF-8 at p, 0 if there is none. */
static size_t utf8_length(const char *p, const char *end)
{
	unsigned char c = (unsigned char)*p;
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0, i;

	if (c > 0xf4 || !n || (size_t)(end - p) < n)
		return 0;
	for (i = 1; i < n; i++)
		if (((unsigned char)p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void add_shown(struct buf *out, const char *p, size_t n)
{
	const char *end = p + n;
	size_t k;

	while (p < end) {
		unsigned char c = (unsigned char)*p;

		k = c >= 0x80 ? utf8_length(p, end) : c >= 0x20 && c != 0x7f;
		if (k) {
			buf_add(out, p, k);
			p += k;
		} else {
			buf_printf(out, "\\x%02x", c);
			p++;
		}
	}
}

/* Backs out of a character that the cut goes through. */
static size_t cut_at(const char *p, size_t n, size_t most)
{
	size_t k = most;

	if (n <= most)
		return n;
	while (k > most - 4 && ((unsigned char)p[k] & 0xc0) == 0x80)
		k--;
	return k;
}

const char *row_show(const char *bytes, size_t n)
{
	static struct buf shown[4];
	static unsigned turn;
	struct buf *out = &shown[turn++ % 4];
	size_t k = cut_at(bytes, n, SHOWN);

	buf_clear(out);
	buf_reserve(out, 0);
	add_shown(out, bytes, k);
	if (k < n)
		buf_str(out, "...");
	return out->data;
}

/* Every '%s' in quotes is a value: what it prints is cut like row_show's. */
static void cut_values(struct buf *out, const char *fmt)
{
	const char *p;

	while ((p = strstr(fmt, "'%s'"))) {
		buf_add(out, fmt, (size_t)(p - fmt));
		buf_printf(out, "'%%.%ds'", SHOWN + 3);
		fmt = p + 4;
	}
	buf_str(out, fmt);
}

/* A mark stands for a string: show how that begins. */
static void show_message(struct buf *out, const char *text)
{
	const char *p, *end;
	struct span span;

	while ((p = strchr(text, SPAN_MARK))) {
		char mark[SPAN_MARK_MAX] = { 0 };
		size_t n;

		add_shown(out, text, (size_t)(p - text));
		end = p + 1 + strspn(p + 1, "0123456789");
		n = (size_t)(end - p);
		if (n < sizeof(mark)) {
			memcpy(mark, p, n);
			if (span_peek(mark, &span)) {
				buf_str(out, row_show(span.raw, span.len));
				text = end;
				continue;
			}
		}
		add_shown(out, p, 1);
		text = p + 1;
	}
	add_shown(out, text, strlen(text));
}

void row_fail(const struct row *r, const char *fmt, ...)
{
	static struct buf cut, shown;
	char text[1024];
	va_list ap;

	buf_clear(&cut);
	cut_values(&cut, fmt);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), cut.data, ap);
	va_end(ap);
	buf_clear(&shown);
	show_message(&shown, text);
	progress_clear();
	if (r->file)
		warn("%s:%" PRId64 ": %s", r->file, r->line, shown.data);
	else
		warn("%s", shown.data);
	if (row_catch)
		longjmp(*row_catch, 1);
	if (row_before_end) {
		void (*fn)(void) = row_before_end;

		row_before_end = NULL;
		fn();
	}
	out_close();
	exit(EX_ROW);
}

/* --- from a line ---------------------------------------------------------- */

void row_fail_scan(const struct row *r, const struct scan *s, const char *line, size_t len,
                   bool newline)
{
	if (s->torn && !newline)
		row_fail(r, "torn last line '%s'", row_show(line, len));
	if (s->at == len)
		row_fail(r, "%s '%s'", s->what, row_show(line, len));
	row_fail(r, "%s at byte %zu '%s'", s->what, s->at + 1, row_show(line + s->at, len - s->at));
}

void row_parse(struct row *r, const char *line, size_t len, bool newline)
{
	static struct scan scan;
	const char *key;

	if (!scan_row(&scan, line, len, true))
		row_fail_scan(r, &scan, line, len, newline);
	r->root = json_parse_row(scan.text, scan.text_len);
	if (!r->root)
		bug("%s:%" PRId64 ": cJSON refuses what the scanner took", r->file, r->line);
	key = check_tree(r->root);
	if (key)
		row_fail(r, "duplicate key '%s'", key);
}

/* --- typed members -------------------------------------------------------- */

static json *need(const struct row *r, const json *obj, const char *where, const char *key)
{
	json *j = (json *)json_get(obj, key);

	if (!j)
		row_fail(r, "missing field '%s%s'", where, key);
	return j;
}

const char *row_str(const struct row *r, const json *obj, const char *where, const char *key)
{
	const json *j = need(r, obj, where, key);
	struct span span;

	if (!json_is_string(j))
		row_fail(r, "field '%s%s' is no string", where, key);
	if (span_find(json_str(j), &span))
		return text_decode_row(span.raw, span.len);
	return json_str(j);
}

int64_t row_int(const struct row *r, const json *obj, const char *where, const char *key,
                int64_t min, int64_t max)
{
	const json *j = need(r, obj, where, key);
	int64_t x;

	if (!json_is_int(j))
		row_fail(r, "field '%s%s' is no integer", where, key);
	x = json_int(j);
	if (x < min || x > max)
		row_fail(r, "field '%s%s' is out of bounds '%" PRId64 "'", where, key, x);
	return x;
}

double row_num(const struct row *r, const json *obj, const char *where, const char *key)
{
	const json *j = need(r, obj, where, key);

	if (!json_is_number(j))
		row_fail(r, "field '%s%s' is no number", where, key);
	return json_num(j);
}

json *row_object(const struct row *r, const json *obj, const char *where, const char *key)
{
	json *j = need(r, obj, where, key);

	if (!json_is_object(j))
		row_fail(r, "field '%s%s' is no object", where, key);
	return j;
}

json *row_array(const struct row *r, const json *obj, const char *where, const char *key)
{
	json *j = need(r, obj, where, key);

	if (!json_is_array(j))
		row_fail(r, "field '%s%s' is no array", where, key);
	return j;
}

/* --- to stdout ------------------------------------------------------------ */

void row_emit_json(struct row *r, const json *j)
{
	static struct buf line;

	buf_clear(&line);
	print_json(&line, j);
	if (line.len > ROW_MAX_BYTES)
		row_fail(r, "row is longer than 2 MB when printed '%zu'", line.len);
	buf_char(&line, '\n');
	out_write(line.data, line.len);
}

void row_emit(struct row *r)
{
	row_emit_json(r, r->root);
}

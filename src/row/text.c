/* text.c - the bytes behind a string node, span or not, both ways. */
#include "row/text.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/die.h"
#include "row/print.h"
#include "row/row.h"
#include "row/span.h"

static struct arena row_arena;

void text_reset(void)
{
	arena_reset(&row_arena);
}

void *row_alloc(size_t n)
{
	return arena_alloc(&row_arena, n);
}

/* --- decoding ------------------------------------------------------------- */

static uint32_t hex4(const char *p)
{
	uint32_t x = 0;
	int i;

	for (i = 0; i < 4; i++) {
		uint32_t c = (unsigned char)p[i];

		x = x << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return x;
}

static int put_utf8(char *to, uint32_t x)
{
	if (x < 0x80) {
		to[0] = (char)x;
		return 1;
	}
	if (x < 0x800) {
		to[0] = (char)(0xc0 | x >> 6);
		to[1] = (char)(0x80 | (x & 0x3f));
		return 2;
	}
	if (x < 0x10000) {
		to[0] = (char)(0xe0 | x >> 12);
		to[1] = (char)(0x80 | (x >> 6 & 0x3f));
		to[2] = (char)(0x80 | (x & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | x >> 18);
	to[1] = (char)(0x80 | (x >> 12 & 0x3f));
	to[2] = (char)(0x80 | (x >> 6 & 0x3f));
	to[3] = (char)(0x80 | (x & 0x3f));
	return 4;
}

static char letter(char c)
{
	switch (c) {
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	}
	return c; /* quote, backslash, slash */
}

/* Decoding never lengthens: an escape is longer than its character. */
static size_t decode(char *to, const char *raw, size_t len)
{
	const char *p = raw, *end = raw + len, *slash;
	char *q = to;

	while ((slash = memchr(p, '\\', (size_t)(end - p)))) {
		memcpy(q, p, (size_t)(slash - p));
		q += slash - p;
		p = slash + 2;
		if (slash[1] == 'u') {
			uint32_t x = hex4(p);

			p += 4;
			if (x >= 0xd800 && x <= 0xdbff) {
				x = 0x10000 + ((x - 0xd800) << 10) + (hex4(p + 2) - 0xdc00);
				p += 6;
			}
			q += put_utf8(q, x);
		} else {
			*q++ = letter(slash[1]);
		}
	}
	memcpy(q, p, (size_t)(end - p));
	return (size_t)(q + (end - p) - to);
}

void text_decode(struct buf *out, const char *raw, size_t len)
{
	buf_reserve(out, len);
	out->len += decode(out->data + out->len, raw, len);
	out->data[out->len] = '\0';
}

const char *text_decode_row(const char *raw, size_t len)
{
	char *s = row_alloc(len + 1);

	s[decode(s, raw, len)] = '\0';
	return s;
}

/* --- nodes ---------------------------------------------------------------- */

const char *row_text(const struct row *r, const json *node, size_t *len)
{
	static struct buf text;
	const char *s = json_str(node);
	struct span span;

	(void)r;
	if (!span_find(s, &span)) {
		*len = strlen(s);
		return s;
	}
	buf_clear(&text);
	text_decode(&text, span.raw, span.len);
	*len = text.len;
	return text.data;
}

const char *row_raw(const struct row *r, const json *node, size_t *len)
{
	static struct buf raw;
	const char *s = json_str(node);
	struct span span;

	(void)r;
	if (span_find(s, &span)) {
		*len = span.len;
		return span.raw;
	}
	buf_clear(&raw);
	buf_reserve(&raw, 0);
	print_escaped(&raw, s, strlen(s));
	*len = raw.len;
	return raw.data;
}

static json *new_span(const char *raw, size_t n)
{
	char mark[SPAN_MARK_MAX];

	span_add(raw, n, mark);
	return json_new_str(mark);
}

/* As the reader does: short strings stay in the tree, unless they look like a
 * mark. */
json *row_new_text(struct row *r, const char *text, size_t n)
{
	static struct buf raw;
	char *kept;

	(void)r;
	if (n < SPAN_MIN && (!n || text[0] != SPAN_MARK)) {
		char plain[SPAN_MIN];

		memcpy(plain, text, n);
		plain[n] = '\0';
		return json_new_str(plain);
	}
	buf_clear(&raw);
	print_escaped(&raw, text, n);
	kept = row_alloc(raw.len);
	memcpy(kept, raw.data, raw.len);
	return new_span(kept, raw.len);
}

json *row_new_raw(struct row *r, const char *escaped, size_t n)
{
	(void)r;
	return new_span(escaped, n);
}

void row_escape(struct buf *out, const char *text, size_t n)
{
	print_escaped(out, text, n);
}

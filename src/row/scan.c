/*
 * scan.c - the strict look at a row's bytes before cJSON sees them.
 *
 * One pass. Most bytes of a row stand inside long strings of plain ASCII, so
 * plain_end takes these eight at a time; everything else goes byte by byte. The
 * NUL behind the line fits no rule, so no look-ahead runs past it.
 */
#include "row/scan.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "row/row.h"
#include "row/span.h"

static const char *fail(struct scan *s, const char *what, const char *p)
{
	s->what = what;
	s->at = (size_t)(p - s->text);
	return NULL;
}

/* For a byte that no rule allows here. */
static const char *unexpected(struct scan *s, const char *p)
{
	unsigned char c = (unsigned char)*p;

	if (p == s->text + s->text_len) {
		s->torn = true;
		return fail(s, "row ends early", p);
	}
	if (c < 0x20)
		return fail(s, "control byte", p);
	return fail(s, "unexpected text", p);
}

/* --- strings -------------------------------------------------------------- */

/*
 * Skips the plain bytes from p on: no control byte, quote or backslash, all
 * ASCII. May stop early near the end.
 */
static const char *plain_end(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101u;

	for (; end - p >= 8; p += 8) {
		uint64_t v, quote, backslash, hit;

		memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		v = __builtin_bswap64(v);
#endif
		quote = v ^ ones * '"';
		backslash = v ^ ones * '\\';
		/* "x - k has its top bit set and x has not" is right for the
		 * lowest byte below k; a borrow can only spoil those above. */
		hit = (((v - ones * 0x20) & ~v) | ((quote - ones) & ~quote) |
		       ((backslash - ones) & ~backslash) | v) &
		      ones * 0x80;
		if (hit)
			return p + (__builtin_ctzll(hit) >> 3);
	}
	return p;
}

static int hex4(const char *p)
{
	int x = 0, i;

	for (i = 0; i < 4; i++) {
		char c = p[i];

		if (c >= '0' && c <= '9')
			x = x << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			x = x << 4 | ((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return x;
}

/* p stands on a backslash; returns what follows the escape. */
static const char *escape_end(struct scan *s, const char *p)
{
	int x, low;

	switch (p[1]) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return p + 2;
	case 'u':
		break;
	default:
		if (p + 1 == s->text + s->text_len)
			return unexpected(s, p + 1);
		return fail(s, "bad escape", p);
	}
	x = hex4(p + 2);
	if (x < 0)
		return fail(s, "bad escape", p);
	if (x == 0)
		return fail(s, "escaped NUL", p);
	if (x < 0xd800 || x > 0xdfff)
		return p + 6;
	low = x < 0xdc00 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
	if (low < 0xdc00 || low > 0xdfff)
		return fail(s, "unpaired surrogate", p);
	return p + 12;
}

static bool continues(const char *p)
{
	return ((unsigned char)*p & 0xc0) == 0x80;
}

/* p stands on a byte >= 0x80; returns what follows the character. The bounds on
 * the second byte keep out overlong forms, surrogates and more than U+10FFFF. */
static const char *utf8_end(struct scan *s, const char *p)
{
	unsigned char a = (unsigned char)p[0], b = (unsigned char)p[1];
	unsigned char low = 0x80, high = 0xbf;

	if (a >= 0xc2 && a <= 0xdf) {
		if (continues(p + 1))
			return p + 2;
	} else if (a >= 0xe0 && a <= 0xef) {
		if (a == 0xe0)
			low = 0xa0;
		if (a == 0xed)
			high = 0x9f;
		if (b >= low && b <= high && continues(p + 2))
			return p + 3;
	} else if (a >= 0xf0 && a <= 0xf4) {
		if (a == 0xf0)
			low = 0x90;
		if (a == 0xf4)
			high = 0x8f;
		if (b >= low && b <= high && continues(p + 2) && continues(p + 3))
			return p + 4;
	}
	return fail(s, "bad UTF-8", p);
}

/* p stands behind the opening quote; returns the closing one. */
static const char *string_end(struct scan *s, const char *p)
{
	const char *end = s->text + s->text_len;

	for (;;) {
		p = plain_end(p, end);
		switch (*p) {
		case '"':
			return p;
		case '\\':
			p = escape_end(s, p);
			break;
		default:
			if ((unsigned char)*p < 0x20)
				return unexpected(s, p);
			p = (unsigned char)*p < 0x80 ? p + 1 : utf8_end(s, p);
		}
		if (!p)
			return NULL;
	}
}

/* --- other scalars -------------------------------------------------------- */

static const char *digits_end(struct scan *s, const char *p)
{
	if (!(*p >= '0' && *p <= '9'))
		return unexpected(s, p);
	while (*p >= '0' && *p <= '9')
		p++;
	return p;
}

static const char *number_end(struct scan *s, const char *from)
{
	const char *p = from + (*from == '-');
	bool exponent = false;

	p = *p == '0' ? p + 1 : digits_end(s, p);
	if (p && *p == '.')
		p = digits_end(s, p + 1);
	if (p && (*p == 'e' || *p == 'E')) {
		exponent = true;
		p++;
		if (*p == '+' || *p == '-')
			p++;
		p = digits_end(s, p);
	}
	if (!p)
		return NULL;
	if (p - from > ROW_MAX_NUMBER)
		return fail(s, "number is too long", from);
	/* Above this the 15 digits that cJSON prints may round up to infinity. */
	if (exponent && !(fabs(strtod(from, NULL)) <= 1.79769313486231e+308))
		return fail(s, "number is too large", from);
	return p;
}

static const char *word_end(struct scan *s, const char *p, const char *word)
{
	for (; *word; word++, p++)
		if (*p != *word)
			return unexpected(s, p);
	return p;
}

/* --- the row -------------------------------------------------------------- */

static const char *skip_blanks(const char *p)
{
	while (*p == ' ')
		p++;
	return p;
}

/* Makes the string at `from` .. `to` (without quotes) a span; *run is the first
 * byte of the line that the skeleton still lacks. */
static void cut_out(struct scan *s, const char *from, const char *to, const char **run)
{
	char mark[SPAN_MARK_MAX];
	int n = span_add(from, (size_t)(to - from), mark);

	buf_add(&s->skeleton, *run, (size_t)(from - *run));
	buf_str(&s->skeleton, "\\u0001"); /* the mark's first byte, escaped */
	buf_add(&s->skeleton, mark + 1, (size_t)n - 1);
	*run = to;
}

static bool looks_like_mark(const char *from, const char *to)
{
	return to - from >= 6 && memcmp(from, "\\u0001", 6) == 0;
}

static void add_member(struct scan *s, const char *key, const char *key_end)
{
	if (s->n_members == s->cap_members) {
		s->cap_members = s->cap_members ? 2 * s->cap_members : 64;
		s->members = xrealloc(s->members, s->cap_members * sizeof(*s->members));
	}
	s->members[s->n_members++] =
		(struct scan_member){ .key = key, .key_len = (size_t)(key_end - key) };
}

bool scan_row(struct scan *s, const char *line, size_t len, bool cut)
{
	const char *p, *q, *run = line;
	uint64_t objects = 0; /* bit d: the container at depth d is an object */
	int depth = 0, values = 0;
	bool in_object = false;

	s->text = line;
	s->text_len = len;
	s->n_members = 0;
	s->what = NULL;
	s->torn = false;
	buf_clear(&s->skeleton);

	p = skip_blanks(line);
	if (p == line + len)
		return fail(s, "blank line", p);
	if (*p != '{')
		return (unsigned char)*p < 0x20 ? unexpected(s, p) : fail(s, "row is no object", p);
value:
	if (++values > ROW_MAX_VALUES)
		return fail(s, "more than 50000 values", p);
	if (depth == 1)
		s->members[s->n_members - 1].value = p;
	switch (*p) {
	case '{':
	case '[':
		if (depth == ROW_MAX_DEPTH)
			return fail(s, "more than 32 levels", p);
		in_object = *p == '{';
		depth++;
		objects = (objects & ~(1ull << depth)) | (uint64_t)in_object << depth;
		p = skip_blanks(p + 1);
		if (*p == (in_object ? '}' : ']'))
			goto close;
		if (in_object)
			goto key;
		goto value;
	case '"':
		q = string_end(s, p + 1);
		if (!q)
			return false;
		if (cut && (q - p > SPAN_MIN || looks_like_mark(p + 1, q)))
			cut_out(s, p + 1, q, &run);
		p = q + 1;
		break;
	case 't':
		p = word_end(s, p, "true");
		break;
	case 'f':
		p = word_end(s, p, "false");
		break;
	case 'n':
		p = word_end(s, p, "null");
		break;
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9':
		p = number_end(s, p);
		break;
	default:
		return unexpected(s, p);
	}
	if (!p)
		return false;
behind_value:
	if (depth == 1) {
		struct scan_member *m = &s->members[s->n_members - 1];

		m->value_len = (size_t)(p - m->value);
	}
	p = skip_blanks(p);
	if (*p == ',') {
		p = skip_blanks(p + 1);
		if (in_object)
			goto key;
		goto value;
	}
	if (*p != (in_object ? '}' : ']'))
		return unexpected(s, p);
close:
	p++;
	depth--;
	in_object = objects >> depth & 1;
	if (depth)
		goto behind_value;

	p = skip_blanks(p);
	if (p != line + len)
		return (unsigned char)*p < 0x20 ? unexpected(s, p)
		                                : fail(s, "text behind the object", p);
	if (s->skeleton.len) {
		buf_add(&s->skeleton, run, (size_t)(line + len - run));
		s->text = s->skeleton.data;
		s->text_len = s->skeleton.len;
	}
	return true;
key:
	if (*p != '"')
		return unexpected(s, p);
	q = string_end(s, p + 1);
	if (!q)
		return false;
	if (depth == 1)
		add_member(s, p + 1, q);
	/* A long key may stay, but none may pass for a mark. */
	if (cut && looks_like_mark(p + 1, q))
		cut_out(s, p + 1, q, &run);
	p = skip_blanks(q + 1);
	if (*p != ':')
		return unexpected(s, p);
	p = skip_blanks(p + 1);
	goto value;
}

void scan_free(struct scan *s)
{
	buf_free(&s->skeleton);
	free(s->members);
	*s = (struct scan){ 0 };
}

/*
 * print.c - a tree as one line of JSON.
 *
 * The bytes are cJSON's own (tests/unit/print.c compares them); the work is not:
 * cJSON prints every number with sprintf, reads it back with sscanf, and would
 * need a second pass for the spans, which together took most of a filter's
 * time.
 */
#include "row/print.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "row/span.h"

/* Room for n more bytes, to be claimed by adding to out->len. Most bytes of a
 * row go through here in twos and threes: no call where there is room. */
static char *room(struct buf *out, size_t n)
{
	if (out->cap - out->len <= n)
		buf_reserve(out, n);
	return out->data + out->len;
}

static void put_char(struct buf *out, char c)
{
	*room(out, 1) = c;
	out->len++;
}

static void put(struct buf *out, const char *p, size_t n)
{
	memcpy(room(out, n), p, n);
	out->len += n;
}

/* --- numbers -------------------------------------------------------------- */

/* Writes the decimal digits of x, most significant first; returns how many. */
static int put_digits(char *to, uint64_t x)
{
	char back[20];
	int n = 0, i;

	do
		back[n++] = (char)('0' + x % 10);
	while (x /= 10);
	for (i = 0; i < n; i++)
		to[i] = back[n - 1 - i];
	return n;
}

/*
 * x as D / 10^k with D < 10^15, if it is the double next to such a number and
 * %.15g prints no exponent. Both D and 10^k (k <= 22) are exact doubles, so
 * D / 10^k == x says that x is what the decimal reads as; two decimals of 15
 * digits never read as the same double, hence %.15g prints this one.
 */
static int put_decimal(char *to, double x)
{
	static const double power[] = {
		1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
		1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
	};
	double a = fabs(x), d;
	int k, n = 0, whole;

	if (x == 0 && signbit(x))
		return 0;
	if (a >= 1e15 || (a < 1e-4 && a != 0))
		return 0;
	for (k = 0;; k++) {
		if (k > 18 || a * power[k] >= 1e15)
			return 0;
		d = (double)(int64_t)(a * power[k] + 0.5);
		if (d / power[k] == a)
			break;
	}
	if (x < 0)
		to[n++] = '-';
	if (!k)
		return n + put_digits(to + n, (uint64_t)d);
	whole = put_digits(to + n, (uint64_t)a);
	n += whole;
	to[n++] = '.';
	{
		uint64_t fraction = (uint64_t)d - (uint64_t)a * (uint64_t)power[k];
		int i;

		for (i = k - 1; i >= 0; i--, fraction /= 10)
			to[n + i] = (char)('0' + fraction % 10);
	}
	return n + k;
}

void print_number(struct buf *out, double x)
{
	enum { LONGEST = 40 };
	char *to = room(out, LONGEST);
	double back, larger;
	int n;

	if (!isfinite(x))
		bug("number is not finite");
	n = put_decimal(to, x);
	if (!n) {
		n = snprintf(to, LONGEST, "%1.15g", x);
		back = strtod(to, NULL);
		larger = fabs(x) > fabs(back) ? fabs(x) : fabs(back);
		if (!(fabs(back - x) <= larger * DBL_EPSILON))
			n = snprintf(to, LONGEST, "%1.17g", x);
	}
	out->len += (size_t)n;
}

/* --- strings -------------------------------------------------------------- */

/* 0: as it is; 'u': \u00xx; else the letter behind the backslash. */
static const char escapes[256] = {
	'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b',         't',           'n', 'u',
	'f', 'r', 'u', 'u', 'u', 'u', 'u', 'u', 'u',         'u',           'u', 'u',
	'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', ['"'] = '"', ['\\'] = '\\',
};

void print_escaped(struct buf *out, const char *text, size_t n)
{
	char *to = room(out, 6 * n);
	size_t i;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (!escapes[c]) {
			*to++ = text[i];
			continue;
		}
		*to++ = '\\';
		*to++ = escapes[c];
		if (escapes[c] == 'u') {
			memcpy(to, "00", 2);
			to[2] = (char)('0' + (c >> 4));
			to[3] = "0123456789abcdef"[c & 15];
			to += 4;
		}
	}
	out->len = (size_t)(to - out->data);
	*to = '\0';
}

static void print_string(struct buf *out, const char *s)
{
	struct span span;

	put_char(out, '"');
	if (*s == SPAN_MARK && span_find(s, &span))
		put(out, span.raw, span.len);
	else
		print_escaped(out, s, strlen(s));
	put_char(out, '"');
}

/* --- trees ---------------------------------------------------------------- */

static void print_node(struct buf *out, const json *j);

static void print_members(struct buf *out, const json *j, bool keys)
{
	const json *c, *next;

	for (c = json_first(j); c; c = next) {
		if (keys) {
			print_string(out, json_key(c));
			put_char(out, ':');
		}
		print_node(out, c);
		next = json_next(c);
		if (next)
			put_char(out, ',');
	}
}

static void print_node(struct buf *out, const json *j)
{
	switch (json_kind(j)) {
	case JSON_NONE:
		bug("cannot print a node of no kind");
	case JSON_NULL:
		put(out, "null", 4);
		break;
	case JSON_BOOL:
		put(out, json_is_true(j) ? "true" : "false", json_is_true(j) ? 4 : 5);
		break;
	case JSON_NUMBER:
		print_number(out, json_num(j));
		break;
	case JSON_STRING:
		print_string(out, json_str(j));
		break;
	case JSON_ARRAY:
		put_char(out, '[');
		print_members(out, j, false);
		put_char(out, ']');
		break;
	case JSON_OBJECT:
		put_char(out, '{');
		print_members(out, j, true);
		put_char(out, '}');
		break;
	}
}

void print_json(struct buf *out, const json *j)
{
	print_node(out, j);
	*room(out, 0) = '\0';
}

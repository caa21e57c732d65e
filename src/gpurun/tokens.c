/* tokens.c - comments and white space out of a source. */
#include "gpurun/tokens.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The end of the literal that begins at p: quotes, escapes, Python's triple
 * quotes. C++'s raw strings would need more, and no kernel file has one. */
static const char *literal(const char *p, const char *end, bool python)
{
	char quote = *p;
	bool triple = python && end - p >= 3 && p[1] == quote && p[2] == quote;

	for (p += triple ? 3 : 1; p < end; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
		else if (!triple && *p == quote)
			return p + 1;
		else if (triple && end - p >= 3 && p[0] == quote && p[1] == quote && p[2] == quote)
			return p + 3;
	}
	return end;
}

/* A quote inside a number (1'000) is no literal. */
static bool begins_literal(const char *source, const char *p)
{
	return *p == '"' || (*p == '\'' && !(p > source && isalnum((unsigned char)p[-1])));
}

static const char *comment(const char *p, const char *end, bool python)
{
	const char *q = NULL;

	if (python ? *p == '#' : end - p >= 2 && p[0] == '/' && p[1] == '/') {
		q = memchr(p, '\n', (size_t)(end - p));
		return q ? q : end;
	}
	if (!python && end - p >= 2 && p[0] == '/' && p[1] == '*') {
		for (q = p + 2; end - q >= 2 && !(q[0] == '*' && q[1] == '/'); q++)
			;
		return end - q >= 2 ? q + 2 : end;
	}
	return NULL;
}

/* A name, or what stands for it. */
static void add_name(struct buf *out, const char *p, size_t n, const char *const *names,
                     int n_names)
{
	for (int i = 0; i < n_names; i++) {
		if (strlen(names[i]) == n && memcmp(names[i], p, n) == 0) {
			buf_printf(out, "_%d", i);
			return;
		}
	}
	buf_add(out, p, n);
}

uint64_t tokens_hash(const char *source, size_t n, bool python, const char *const *names,
                     int n_names)
{
	static struct buf out;
	const char *p = source, *end = source + n;
	bool line_start = true, directive = false;

	buf_clear(&out);
	while (p < end) {
		const char *q = comment(p, end, python);

		if (q) {
			p = q;
			continue;
		}
		if (begins_literal(source, p)) {
			q = literal(p, end, python);
			buf_add(&out, p, (size_t)(q - p));
			line_start = false;
			p = q;
			continue;
		}
		if (*p == '\n') {
			/* It ends a statement or a directive; empty lines are none. */
			if ((python || directive) && out.len && out.data[out.len - 1] != '\n')
				buf_char(&out, '\n');
			line_start = true;
			directive = false;
			p++;
			continue;
		}
		if (isspace((unsigned char)*p)) {
			q = p;
			while (p < end && *p != '\n' && isspace((unsigned char)*p))
				p++;
			if (p < end && *p != '\n' && !comment(p, end, python)) {
				if (python && line_start)
					buf_add(&out, q, (size_t)(p - q));
				else if (!line_start && out.len && is_name(out.data[out.len - 1]) &&
				         is_name(*p))
					buf_char(&out, ' ');
			}
			continue;
		}
		/* A name at the start of a line does not join the one before. */
		if (line_start && !python && out.len && is_name(out.data[out.len - 1]) &&
		    is_name(*p))
			buf_char(&out, ' ');
		if (line_start && !python && *p == '#')
			directive = true;
		line_start = false;
		q = p;
		while (q < end && is_name(*q))
			q++;
		if (q > p)
			add_name(&out, p, (size_t)(q - p), names, n_names);
		else
			buf_char(&out, *q++);
		p = q;
	}
	return hash_bytes(out.data ? out.data : "", out.len, 0);
}

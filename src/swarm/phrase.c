/*
 * phrase.c - expansion of the grammar by recursive descent.
 */
#include "swarm/phrase.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"

/* Most names differ in their first letter, and there are many to ask. */
static bool same(const char *a, const char *b)
{
	return *a == *b && strcmp(a, b) == 0;
}

void fact(struct facts *f, const char *name, const char *fmt, ...)
{
	char text[512];
	va_list args;
	int i, n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (n < 0 || n >= (int)sizeof text)
		n = (int)sizeof text - 1;
	for (i = 0; i < f->n && !same(f->name[i], name); i++)
		;
	if (i == MAX_FACTS)
		bug("more than %d facts", MAX_FACTS);
	if (i == f->n)
		f->name[f->n++] = name;
	f->value[i] = arena_copy(f->arena, text, (size_t)n);
}

const char *fact_get(const struct facts *f, const char *name)
{
	for (int i = 0; i < f->n; i++) {
		if (same(f->name[i], name))
			return f->value[i];
	}
	return NULL;
}

/* The end of the alternative at p: a '|' or ']' of this level, or the NUL. */
static const char *alternative_end(const char *p)
{
	for (int depth = 0; *p; p++) {
		if (*p == '[')
			depth++;
		else if (*p == ']' && depth-- == 0)
			return p;
		else if (*p == '|' && depth == 0)
			return p;
	}
	return p;
}

static void expand(struct facts *f, struct rng *r, const char *p, const char *end, struct buf *out)
{
	while (p < end) {
		if (*p == '[') {
			const char *start[64], *stop[64], *q = p + 1;
			int n = 0, pick;

			for (;;) {
				const char *e = alternative_end(q);

				if (!*e || n == 64)
					bug("grammar: unclosed or too wide '['");
				start[n] = q;
				stop[n++] = e;
				q = e + 1;
				if (*e == ']')
					break;
			}
			pick = (int)rng_below(r, (uint64_t)n);
			expand(f, r, start[pick], stop[pick], out);
			p = q;
		} else if (*p == '{') {
			char name[32];
			const char *close = strchr(p, '}'), *value;

			snprintf(name, sizeof name, "%.*s", (int)(close - p) - 1, p + 1);
			value = fact_get(f, name);
			if (!value)
				bug("grammar: no fact '%s'", name);
			buf_str(out, value);
			p = close + 1;
		} else {
			size_t n = strcspn(p, "[{");

			n = n < (size_t)(end - p) ? n : (size_t)(end - p);
			buf_add(out, p, n);
			p += n;
		}
	}
}

/* The grammar puts blanks between clauses, some of which begin with a comma
 * or are empty. */
static void tidy(struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->len; i++) {
		char c = b->data[i], next = i + 1 < b->len ? b->data[i + 1] : '.';

		if (c == ' ' && (strchr(",;:.", next) || next == ' '))
			continue;
		if (c == '.' && i > 0 && b->data[i - 1] == '?')
			continue;
		b->data[n++] = c;
	}
	b->len = n;
	b->data[n] = '\0';
}

/* Names keep their case at the beginning of a sentence. */
static bool is_name(const struct facts *f, const char *word, size_t n)
{
	static const char *const names[] = { "variant", "param", "params", "dtype", "mine" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *name = fact_get(f, names[i]);

		if (name && strncmp(name, word, n) == 0)
			return true;
	}
	return memchr(word, '_', n) != NULL;
}

static bool is_candidate_id(const char *p)
{
	return p[0] == 'c' && isdigit((unsigned char)p[1]) && isdigit((unsigned char)p[2]);
}

const char *clause(struct facts *f, struct rng *r, const char *grammar)
{
	struct buf out = { 0 };
	const char *text;

	expand(f, r, grammar, grammar + strlen(grammar), &out);
	text = arena_copy(f->arena, out.data, out.len);
	buf_free(&out);
	return text;
}

const char *phrase(struct facts *f, struct rng *r, const char *grammar)
{
	static struct buf out;
	bool starts = true;

	buf_clear(&out);
	expand(f, r, grammar, grammar + strlen(grammar), &out);
	tidy(&out);
	for (size_t i = 0; i < out.len; i++) {
		char *p = out.data + i;

		if (starts && isalpha((unsigned char)*p)) {
			size_t n = strcspn(p, " ,.;:");

			if (!is_candidate_id(p) && !is_name(f, p, n) &&
			    !(p[0] == 'a' && isdigit((unsigned char)p[1])))
				*p = (char)toupper((unsigned char)*p);
		}
		if (!isspace((unsigned char)*p))
			starts = (*p == '.' || *p == '?') && (p[1] == ' ' || p[1] == '\0');
	}
	return arena_copy(f->arena, out.data, out.len);
}

/* check.c - what cJSON lets through and a row must not have. */
#include "row/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "row/span.h"
#include "row/text.h"

struct key {
	uint64_t print; /* equal for equal keys */
	const char *text;
};

/* Cheap and good enough to tell a dozen field names apart. */
static uint64_t fingerprint(const char *s)
{
	uint64_t h = 0;

	for (; *s; s++)
		h = (h << 7 | h >> 57) ^ (unsigned char)*s;
	return h;
}

static bool same(const struct key *a, const struct key *b)
{
	return a->print == b->print && strcmp(a->text, b->text) == 0;
}

/* A key that was made a span is compared by its decoded text. */
static const char *key_text(const char *key)
{
	struct span span;

	return *key == SPAN_MARK && span_find(key, &span) ? text_decode_row(span.raw, span.len)
	                                                  : key;
}

static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->print != y->print)
		return x->print < y->print ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* For the rare large object: sort, then look at neighbours. */
static const char *repeated_of_many(const json *object)
{
	static struct key *keys;
	static size_t cap;
	size_t n = 0, i;
	const json *c;

	for (c = json_first(object); c; c = json_next(c)) {
		const char *text = key_text(json_key(c));

		if (n == cap) {
			cap = cap ? 2 * cap : 256;
			keys = xrealloc(keys, cap * sizeof(*keys));
		}
		keys[n++] = (struct key){ hash_str(text), text };
	}
	qsort(keys, n, sizeof(*keys), by_key);
	for (i = 1; i < n; i++)
		if (same(&keys[i - 1], &keys[i]))
			return keys[i].text;
	return NULL;
}

static const char *repeated_key(const json *object)
{
	enum { FEW = 32 };
	struct key keys[FEW];
	int n = 0, i;
	const json *c;

	for (c = json_first(object); c; c = json_next(c)) {
		const char *text = key_text(json_key(c));

		if (n == FEW)
			return repeated_of_many(object);
		keys[n] = (struct key){ fingerprint(text), text };
		for (i = 0; i < n; i++)
			if (same(&keys[i], &keys[n]))
				return text;
		n++;
	}
	return NULL;
}

const char *check_tree(json *j)
{
	const char *key;
	json *c;

	switch (json_kind(j)) {
	case JSON_NUMBER:
		if (json_num(j) == 0)
			json_set_num(j, 0);
		return NULL;
	case JSON_OBJECT:
		key = repeated_key(j);
		if (key)
			return key;
		break;
	case JSON_ARRAY:
		break;
	default:
		return NULL;
	}
	for (c = json_first(j); c; c = json_next(c)) {
		key = check_tree(c);
		if (key)
			return key;
	}
	return NULL;
}

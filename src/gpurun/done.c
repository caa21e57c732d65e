/* done.c - a set of keys read from result rows. */
#include "gpurun/done.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "episode/schema.h"
#include "row/json.h"

const char *const done_candidate[] = {
	"op", "impl", "gpu", "dtype", "shape", "provenance.source_hash", NULL,
};

static uint64_t *set; /* open addressing, 0 is free */
static size_t n_set, cap_set;

static void insert(uint64_t h)
{
	size_t i = h & (cap_set - 1);

	while (set[i] && set[i] != h)
		i = (i + 1) & (cap_set - 1);
	n_set += !set[i];
	set[i] = h;
}

static void add(uint64_t h)
{
	if (2 * n_set >= cap_set) {
		uint64_t *old = set;
		size_t cap = cap_set;

		cap_set = cap ? 2 * cap : 1024;
		set = xmalloc(cap_set * sizeof *set);
		memset(set, 0, cap_set * sizeof *set);
		n_set = 0;
		for (size_t i = 0; i < cap; i++) {
			if (old[i])
				insert(old[i]);
		}
		free(old);
	}
	insert(h);
}

static uint64_t hash_key(const struct buf *key)
{
	uint64_t h = hash_bytes(key->data, key->len, 7);

	return h ? h : 1;
}

void done_text(struct buf *key, const char *value)
{
	buf_str(key, value);
	buf_char(key, '\n');
}

void done_int(struct buf *key, int64_t value)
{
	buf_printf(key, "%" PRId64 "\n", value);
}

void done_shape(struct buf *key, const struct op *op, const int64_t *v)
{
	for (int a = 0; a < op->n_axes; a++)
		buf_printf(key, "%s=%" PRId64 ",", op->axes[a], v[a]);
	buf_char(key, '\n');
}

void done_problem(struct buf *key, const struct problem *p, uint64_t source_hash)
{
	char hash[17];

	done_text(key, p->op->name);
	done_text(key, impl_name(p->impl));
	done_text(key, p->gpu->name);
	done_text(key, dtype_name(p->dtype));
	done_shape(key, p->op, p->shape);
	hash_hex(source_hash, hash);
	done_text(key, hash);
}

static const json *member(const json *j, const char *path)
{
	char name[64];

	while (j) {
		size_t n = strcspn(path, ".");

		if (n >= sizeof name)
			return NULL;
		memcpy(name, path, n);
		name[n] = '\0';
		j = json_get(j, name);
		if (!path[n])
			return j;
		path += n + 1;
	}
	return NULL;
}

/* False for a value that no key has. */
static bool add_value(struct buf *key, const json *v)
{
	if (json_is_string(v)) {
		done_text(key, json_str(v));
	} else if (json_is_null(v)) {
		done_text(key, "null");
	} else if (json_is_int(v)) {
		done_int(key, json_int(v));
	} else if (json_is_object(v)) {
		for (const json *c = json_first(v); c; c = json_next(c)) {
			if (!json_is_int(c))
				return false;
			buf_printf(key, "%s=%" PRId64 ",", json_key(c), json_int(c));
		}
		buf_char(key, '\n');
	} else {
		return false;
	}
	return true;
}

static void read_row(const json *j, const char *const *members)
{
	static struct buf key;
	const json *status = json_get(j, "status");

	if (json_is_string(status) && !strcmp(json_str(status), word_name(OUTCOME_INFRA_ERROR)))
		return;
	buf_clear(&key);
	for (int i = 0; members[i]; i++) {
		if (!add_value(&key, member(j, members[i])))
			return;
	}
	add(hash_key(&key));
}

void done_load(const char *path, const char *const *members)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int64_t number = 0;

	if (!f)
		die_errno("cannot read '%s'", path);
	while ((n = getline(&line, &cap, f)) > 0) {
		json *j;

		number++;
		if (line[n - 1] == '\n')
			line[--n] = '\0';
		j = json_parse(line, (size_t)n);
		if (json_is_object(j))
			read_row(j, members);
		else
			warn("%s:%" PRId64 ": no row, left out", path, number);
		if (j)
			json_free(j);
	}
	if (ferror(f))
		die_errno("cannot read '%s'", path);
	free(line);
	fclose(f);
}

bool done_has(const struct buf *key)
{
	uint64_t h;

	if (!n_set)
		return false;
	h = hash_key(key);
	for (size_t i = h & (cap_set - 1); set[i]; i = (i + 1) & (cap_set - 1)) {
		if (set[i] == h)
			return true;
	}
	return false;
}

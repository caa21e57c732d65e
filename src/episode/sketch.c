/* sketch.c - see sketch.h. */
#include "episode/sketch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the smallest hashes ---- */

static int by_hash(const void *a, const void *b)
{
	uint64_t x = ((const struct sketch_item *)a)->hash;
	uint64_t y = ((const struct sketch_item *)b)->hash;

	return x < y ? -1 : x > y;
}

/* Items by rising hash into `sorted`; returns their number. */
static int sort_items(const struct sketch *s, struct sketch_item *sorted)
{
	int n = 0;

	for (int i = 0; i < SKETCH_SLOTS; i++)
		if (s->slot[i].count)
			sorted[n++] = s->slot[i];
	qsort(sorted, (size_t)n, sizeof sorted[0], by_hash);
	return n;
}

static struct sketch_item *find(struct sketch *s, uint64_t hash)
{
	/* The hash itself is skewed towards 0 among the kept: spread it. */
	size_t i = (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % SKETCH_SLOTS;

	while (s->slot[i].count && s->slot[i].hash != hash)
		i = (i + 1) % SKETCH_SLOTS;
	return &s->slot[i];
}

/* Keeps the SKETCH_KEEP smallest. */
static void shrink(struct sketch *s)
{
	static struct sketch_item sorted[SKETCH_SLOTS];
	int n = sort_items(s, sorted);

	if (n <= SKETCH_KEEP)
		return;
	memset(s->slot, 0, sizeof s->slot);
	s->n = SKETCH_KEEP;
	s->limit = sorted[SKETCH_KEEP - 1].hash + 1;
	for (int i = 0; i < SKETCH_KEEP; i++)
		*find(s, sorted[i].hash) = sorted[i];
}

void sketch_keep(struct sketch *s, uint64_t hash, int64_t count)
{
	struct sketch_item *item = find(s, hash);

	if (!item->count) {
		item->hash = hash;
		s->n++;
	}
	item->count += count;
	if (s->n == 2 * SKETCH_KEEP)
		shrink(s);
}

/* How many different items each kept one stands for; 1 if exact. The kept ones
 * fill the hash range up to the limit, the last of them by definition. */
static double scale(const struct sketch *s)
{
	if (!s->limit)
		return 1;
	return (1 - 1.0 / SKETCH_KEEP) / ((double)s->limit / 0x1p64);
}

double sketch_distinct(struct sketch *s)
{
	shrink(s);
	return scale(s) * s->n;
}

double sketch_distinct_tag(struct sketch *s, unsigned tag)
{
	int n = 0;

	shrink(s);
	for (int i = 0; i < SKETCH_SLOTS; i++)
		n += s->slot[i].count && (s->slot[i].hash & 0xff) == tag;
	return scale(s) * n;
}

double sketch_repeats(struct sketch *s)
{
	int64_t total = 0;

	shrink(s);
	for (int i = 0; i < SKETCH_SLOTS; i++)
		total += s->slot[i].count;
	return total ? (double)(total - s->n) / (double)total : 0;
}

void sketch_print(struct sketch *s, struct buf *out)
{
	static struct sketch_item sorted[SKETCH_SLOTS];
	int n;

	shrink(s);
	n = sort_items(s, sorted);
	for (int i = 0; i < n; i++)
		buf_printf(out, "%s%016" PRIx64 "=%" PRId64, i ? " " : "", sorted[i].hash,
		           sorted[i].count);
	/* Without this a full part would look like an exact one of that size. */
	if (s->limit)
		buf_printf(out, " %016" PRIx64 "=0", s->limit);
}

bool sketch_read(struct sketch *s, const char *text)
{
	while (*text) {
		char *end;
		uint64_t hash = strtoull(text, &end, 16);
		int64_t count;

		if (end != text + 16 || *end != '=')
			return false;
		text = end + 1;
		count = strtoll(text, &end, 10);
		if (end == text || count < 0 || (*end && *end != ' '))
			return false;
		if (count)
			sketch_add(s, hash, count);
		else if (!s->limit || hash < s->limit)
			s->limit = hash;
		text = *end ? end + 1 : end;
	}
	/* A limit from another part may lie below what is here already. */
	for (int i = 0; s->limit && i < SKETCH_SLOTS; i++)
		if (s->slot[i].count && s->slot[i].hash >= s->limit) {
			static struct sketch_item sorted[SKETCH_SLOTS];
			int n = sort_items(s, sorted);

			memset(s->slot, 0, sizeof s->slot);
			s->n = 0;
			for (int k = 0; k < n && sorted[k].hash < s->limit; k++, s->n++)
				*find(s, sorted[k].hash) = sorted[k];
			break;
		}
	return true;
}

/* ---- buckets ---- */

void buckets_add(struct buckets *b, uint64_t hash)
{
	for (int r = 0; r < SKETCH_ROWS; r++)
		b->cell[r][(hash >> (24 * r)) % SKETCH_CELLS]++;
}

int64_t buckets_most(const struct buckets *b)
{
	int64_t least = INT64_MAX;

	for (int r = 0; r < SKETCH_ROWS; r++) {
		int64_t most = 0;

		for (int i = 0; i < SKETCH_CELLS; i++)
			if (b->cell[r][i] > most)
				most = b->cell[r][i];
		if (most < least)
			least = most;
	}
	return least;
}

void buckets_print(const struct buckets *b, struct buf *out)
{
	const char *space = "";

	for (int i = 0; i < SKETCH_ROWS * SKETCH_CELLS; i++)
		if (b->cell[i / SKETCH_CELLS][i % SKETCH_CELLS]) {
			buf_printf(out, "%s%d:%" PRId64, space, i,
			           b->cell[i / SKETCH_CELLS][i % SKETCH_CELLS]);
			space = " ";
		}
}

bool buckets_read(struct buckets *b, const char *text)
{
	while (*text) {
		char *end;
		long i = strtol(text, &end, 10);
		int64_t count;

		if (end == text || *end != ':' || i < 0 || i >= SKETCH_ROWS * SKETCH_CELLS)
			return false;
		text = end + 1;
		count = strtoll(text, &end, 10);
		if (end == text || count < 1 || (*end && *end != ' '))
			return false;
		b->cell[i / SKETCH_CELLS][i % SKETCH_CELLS] += count;
		text = *end ? end + 1 : end;
	}
	return true;
}

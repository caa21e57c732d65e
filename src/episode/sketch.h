/*
 * sketch.h - how many different things there are, in little memory, mergeable
 * exactly in any order.
 *
 * A sketch keeps the SKETCH_KEEP smallest 64-bit hashes that it has met, each
 * with how often. Whoever is among the smallest of a union is among the
 * smallest of each part, so counts stay exact and merging commutes. Up to
 * SKETCH_KEEP different items everything is exact; beyond, the kept ones are a
 * uniform sample of the different items (standard error of the number of
 * different ones: 1.6 %).
 *
 * A bucket table counts items by SKETCH_ROWS independent parts of their hash
 * (a count-min sketch): its largest cell bounds the commonest item's count from
 * above, by about total / SKETCH_CELLS too much.
 */
#ifndef EPISODE_SKETCH_H
#define EPISODE_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { SKETCH_KEEP = 4096, SKETCH_SLOTS = 4 * SKETCH_KEEP, SKETCH_ROWS = 2, SKETCH_CELLS = 4096 };

struct sketch {
	int n;
	uint64_t limit; /* hashes from here on are not kept; 0: all are */
	struct sketch_item {
		uint64_t hash;
		int64_t count;
	} slot[SKETCH_SLOTS];
};

/* {0} is an empty one. */
void sketch_keep(struct sketch *s, uint64_t hash, int64_t count);

/* Most items of a large set end here. */
static inline void sketch_add(struct sketch *s, uint64_t hash, int64_t count)
{
	if (!s->limit || hash < s->limit)
		sketch_keep(s, hash, count);
}

/* Different items, as far as is known: an integer where it is exact. */
double sketch_distinct(struct sketch *s);
/* Of those whose hash has `tag` as its last byte. */
double sketch_distinct_tag(struct sketch *s, unsigned tag);
/* Of all occurrences, the share that repeats an earlier one. */
double sketch_repeats(struct sketch *s);
/* "HASH=COUNT HASH=COUNT …" by rising hash; read adds to s, false if the text
 * is something else. */
void sketch_print(struct sketch *s, struct buf *out);
bool sketch_read(struct sketch *s, const char *text);

struct buckets {
	int64_t cell[SKETCH_ROWS][SKETCH_CELLS];
};

void buckets_add(struct buckets *b, uint64_t hash);
/* At most this many times did the commonest item occur. */
int64_t buckets_most(const struct buckets *b);
/* "CELL:COUNT …" of the cells that are not 0; read adds. */
void buckets_print(const struct buckets *b, struct buf *out);
bool buckets_read(struct buckets *b, const char *text);

#endif

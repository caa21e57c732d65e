/* arena.h - memory that lives as long as one row. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* {0} is an empty arena. Blocks are kept and reused after arena_reset. */
struct arena {
	struct arena_block *first, *current;
	size_t used; /* of the current block */
};

/* n bytes, aligned for any type, not cleared; cannot fail. */
void *arena_alloc(struct arena *a, size_t n);
char *arena_copy(struct arena *a, const char *s, size_t n); /* NUL-terminated */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Everything handed out becomes invalid. */
void arena_reset(struct arena *a);
/* Does p point into one of its blocks? */
bool arena_holds(const struct arena *a, const void *p);

#endif

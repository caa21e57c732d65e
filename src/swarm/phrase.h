/*
 * phrase.h - prose from a small grammar: `[a|b|c]` is one of its alternatives
 * (nested at will), `{name}` a fact, anything else itself.
 */
#ifndef SWARM_PHRASE_H
#define SWARM_PHRASE_H

#include "base/arena.h"
#include "base/rng.h"

enum { MAX_FACTS = 64 };

struct facts {
	struct arena *arena;
	int n;
	const char *name[MAX_FACTS], *value[MAX_FACTS];
};

/* Sets a fact, replacing an earlier one of that name. */
void fact(struct facts *f, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* NULL if there is no such fact. */
const char *fact_get(const struct facts *f, const char *name);

/* Expands the grammar, in f's arena. An unknown fact is a bug. clause() leaves
 * it at that; phrase() begins each sentence with a capital, but for names. */
const char *clause(struct facts *f, struct rng *r, const char *grammar);
const char *phrase(struct facts *f, struct rng *r, const char *grammar);

#endif

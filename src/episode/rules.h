/* rules.h - names for what can be wrong with a row, and where it is said. */
#ifndef EPISODE_RULES_H
#define EPISODE_RULES_H

enum rule {
#define RULE(id, name, text) RULE_##id,
#include "episode/rules.def"
	N_RULES
};

const char *rule_name(enum rule rule);
const char *rule_text(enum rule rule);

/* Whoever is told of a violation: score stops at the first, lint prints all.
 * path is the field ("messages[12].best_ms"), what follows it in a sentence
 * ("is 0.41, not 0.42"). */
struct objector {
	void (*say)(void *arg, enum rule rule, const char *path, const char *what);
	void *arg;
};

/* Says it, the path being "messages[I].FIELD", or FIELD alone if I < 0. */
void object(const struct objector *o, enum rule rule, int message, const char *field,
            const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif

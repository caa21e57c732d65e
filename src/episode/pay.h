/*
 * pay.h - what an episode's acts are worth: one table row per scheme.
 *
 * A scheme's constants are weights, all of which can be set by name. The name
 * and every weight that differs from the scheme's own stand in the row's
 * `scheme`, such as "standard" or "standard:clip=2,wrong_result=-0.5", so that
 * whoever reads a row can recompute its rewards.
 */
#ifndef EPISODE_PAY_H
#define EPISODE_PAY_H

#include <stddef.h>

#include "base/buf.h"
#include "episode/episode.h"

/* What a verified result may be worth is up to the scheme; what the other
 * outcomes are worth is a weight each. */
enum weight {
	W_GAIN,    /* factor of the speed term */
	W_CLIP,    /* the most that a result's speed term gives */
	W_CORRECT, /* for being right, whatever the time */
	W_VERDICT, /* factor of the terminal reward */
	W_NO_IMPROVEMENT,
	W_COMPILE_ERROR,
	W_UNSUPPORTED_ARCH,
	W_WRONG_RESULT,
	W_LAUNCH_ERROR,
	W_CRASHED,
	W_TIMEOUT,
	W_COUNT
};

struct scheme;

/* A scheme with its weights as chosen. */
struct pay {
	const struct scheme *scheme;
	double weight[W_COUNT]; /* NAN: the scheme has no such weight */
};

/* The i-th scheme's name, what it pays (a formula) and where it is from; false
 * behind the last. The pointers may be NULL. */
bool pay_list(int i, const char **name, const char **what, const char **source);
const char *weight_name(enum weight w);

/* "NAME" or "NAME:KEY=VALUE,…" into p. NULL if it is good, else what is wrong
 * with it ("unknown scheme", "scheme has no such weight", …). */
const char *pay_parse(struct pay *p, const char *text);
/* One more "KEY=VALUE" of n bytes; as above. */
const char *pay_weight(struct pay *p, const char *text, size_t n);
/* The text that pay_parse reads, appended. */
void pay_print(const struct pay *p, struct buf *out);

/* Rewards of an episode whose results carry their scored status: each result's
 * and verdict's `reward`, agents' `ret`, the episode's `ret`. All rounded; NAN
 * for a result that the infrastructure spoiled. */
void pay_episode(struct episode *e, const struct pay *p);

#endif

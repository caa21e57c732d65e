/*
 * holdout.h - what is reserved for testing, fixed in the tables, no seed.
 *
 * Reservation is by problem, which may span ops, impls and dtypes: about a
 * fifth of a problem's model dimensions (a shape's axes other than batch,
 * tokens and lengths), and twelve (problem, gpu) pairs.
 */
#ifndef OPS_HOLDOUT_H
#define OPS_HOLDOUT_H

#include <stdbool.h>

#include "ops/config.h"

enum holdout {
	HOLDOUT_NONE,      /* training may use it */
	HOLDOUT_SHAPE,     /* model dimensions no training row has */
	HOLDOUT_PAIR_NEAR, /* the problem is trained on the GPU's sister */
	HOLDOUT_PAIR_FAR   /* on neither of the sisters */
};

/* "shape", "pair_near", "pair_far"; HOLDOUT_NONE has no name (NULL). */
const char *holdout_name(enum holdout h);
/* What the problem is reserved for; a reserved pair wins over a shape. */
enum holdout holdout_of(const struct problem *p);
bool holdout_shape(const struct op *op, const int64_t *shape);
enum holdout holdout_pair(const struct op *op, const struct gpu *gpu);

/* The table of pairs, for tests: the i-th, or false beyond the end. */
bool holdout_pair_at(int i, const char **problem, const char **gpu);

#endif

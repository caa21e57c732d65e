/*
 * catalog.h - which problem the n-th task is.
 *
 * A function of (seed, index) and the lists asked for. Over all ops any 17
 * consecutive training tasks hold all of them; each run of tasks that begins
 * at a multiple of the number of GPUs holds every GPU once. Nothing reserved
 * by holdout.h is ever drawn for training.
 */
#ifndef OPS_CATALOG_H
#define OPS_CATALOG_H

#include "ops/config.h"
#include "ops/holdout.h"

enum { CATALOG_HOLDOUT_TASKS = 512, CATALOG_MAX_OPS = 128, CATALOG_MAX_GPUS = 32 };

struct catalog {
	int n_ops, n_gpus;
	const struct op *ops[CATALOG_MAX_OPS];
	const struct gpu *gpus[CATALOG_MAX_GPUS];
};

/* All ops and GPUs, or those of the comma-separated lists (NULL: all; names
 * must be known). Without a list of ops those are left out for which all these
 * GPUs are reserved. */
void catalog_open(struct catalog *c, const char *ops, const char *gpus);
/* NULL if every op has an unreserved GPU, else the op that has none. */
const char *catalog_starved(const struct catalog *c);
/* The training task `index` of `seed`. */
void catalog_train(const struct catalog *c, uint64_t seed, int64_t index, struct problem *out);
/* The hold-out task 0 … 511, whatever the seed; and what it is reserved for. */
enum holdout catalog_holdout(int64_t index, struct problem *out);

#endif

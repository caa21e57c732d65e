/*
 * done.h - what an earlier output file holds already, so that long work can be
 * cut into pieces.
 */
#ifndef GPURUN_DONE_H
#define GPURUN_DONE_H

#include <stdbool.h>

#include "base/buf.h"
#include "ops/config.h"

/*
 * Reads rows of `path`, and remembers of each the members named (ended by NULL;
 * "provenance.source_hash" is one inside another). Rows without all of them,
 * rows of status infra_error and a torn line count as not there. Dies if the
 * file cannot be read. May be called for several files.
 */
void done_load(const char *path, const char *const *members);
/* The members' values, each added by one of these, in the same order. */
void done_text(struct buf *key, const char *value);
void done_int(struct buf *key, int64_t value);
void done_shape(struct buf *key, const struct op *op, const int64_t *v);
bool done_has(const struct buf *key);

/* The members of a candidate's result row, and a candidate's own. */
extern const char *const done_candidate[];
void done_problem(struct buf *key, const struct problem *p, uint64_t source_hash);

#endif

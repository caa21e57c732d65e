/*
 * write.h - structs into rows, keys in the order of schema.def.
 *
 * Trees made here belong to the caller until they are given to the row. Source
 * text may be borrowed until the row is emitted (row_new_text).
 */
#ifndef EPISODE_WRITE_H
#define EPISODE_WRITE_H

#include "base/buf.h"
#include "episode/episode.h"
#include "row/row.h"

/* The published row of e: null where score or reward has still to fill. `task`
 * is the task row's `task` object and is given to the new row. Members of
 * r->root that no stage knows are copied: to the front those that stand there,
 * the others to the end. */
json *episode_write(struct row *r, const struct episode *e, json *task);

/* <op>_<gpu>_<axis=value,...>_<scenario>_<index>, appended. */
void episode_id(const struct episode *e, struct buf *out);

/* A message's object. */
json *message_write(struct row *r, const struct message *m);

/* Puts scenario, n_agents, agents and assignments into the task row, in their
 * places if they are there, else at its end. */
void plan_write(struct row *r, const struct episode *e);

/* Adds task_id, index, seed, split, op, impl, gpu, arch, dtype, shape. */
void task_write(json *root, const struct task *t);
/* Of these, op to shape: what candidate rows begin with. */
void problem_write(json *root, const struct task *t);

/* Turns a candidate row into a result row: status, compile, verify and bench
 * of m, env ("simulated"), provenance (given to the row; NULL: null). */
void result_write(struct row *r, const struct message *m, const char *env, json *provenance);

/* What score and reward derive, put in place into the row that e was read
 * from: best_ms, speedup, elapsed_s, agents' tries, kept, best_ms and return,
 * results' status, prev_best_ms, kept and reward, the verdict's speedup and
 * reward, scheme, return. */
void episode_write_back(struct row *r, const struct episode *e);

#endif

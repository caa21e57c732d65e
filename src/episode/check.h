/*
 * check.h - the rules of the format that a row can break by itself.
 *
 * What follows from the results (aggregates, claims, rewards) is settle's
 * matter; what concerns the set is census'.
 */
#ifndef EPISODE_CHECK_H
#define EPISODE_CHECK_H

#include "episode/episode.h"
#include "episode/rules.h"
#include "row/row.h"

/* An episode as read, before settle. */
void check_episode(const struct row *r, const struct episode *e, const struct objector *o);
/* What holds of any task: the hold-out's reservation, the facts in `task`. */
void check_task(const struct row *r, const struct task *t, const struct objector *o);
/* A hold-out row as read. */
void check_holdout(const struct row *r, const struct task *t, const struct objector *o);

#endif

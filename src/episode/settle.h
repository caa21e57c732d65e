/*
 * settle.h - the referee's work: derives every aggregate of an episode from
 * its raw results alone and holds each stated value against it.
 */
#ifndef EPISODE_SETTLE_H
#define EPISODE_SETTLE_H

#include "episode/episode.h"
#include "episode/rules.h"

/*
 * Fills, in place: results' status, prev_best_ms and kept; the verdict's
 * speedup; rewards and returns under the scheme that the row states (the
 * standard one if it states none); best_ms, speedup, elapsed_s; agents' tries,
 * kept and best_ms. A stated (non-null) value that differs, and any claim of a
 * status, verify, leaderboard, merge, redirect, handoff or verdict that the
 * results do not bear out, is objected to; what follows is then computed from
 * the truth.
 */
void settle(struct episode *e, const struct objector *o);

#endif

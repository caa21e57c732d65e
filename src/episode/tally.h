/*
 * tally.h - what stats counts, as integers alone, so that parts merge exactly
 * in any order.
 *
 * Sums of real numbers are in millionths of what each episode gives, rounded
 * once. What must be different or common is sketched (sketch.h).
 */
#ifndef EPISODE_TALLY_H
#define EPISODE_TALLY_H

#include "episode/episode.h"
#include "row/row.h"

/* Adds a scored episode; fails the row if it is not scored or out of range. */
void tally_take(const struct row *r, const struct episode *e);

/* Adds a move to the counts: whether it went against the limiter that its
 * author had last been told, and whether it improved. */
enum tally_move { TALLY_AGAINST, TALLY_OTHER, TALLY_UNKNOWN, TALLY_MOVES };
void tally_move(enum tally_move move, bool improved);

/* The partial form, and adding one. tally_read fails the row if it is none of
 * this version. */
json *tally_write(struct row *r);
void tally_read(const struct row *r);

/* The final form: shares, means, correlations. */
json *tally_report(void);

#endif

/*
 * census.h - rules over a whole set: what no row can break alone.
 *
 * Memory is 32 bytes a row: a hash of the episode_id, the index and what the
 * coverage rules need.
 */
#ifndef EPISODE_CENSUS_H
#define EPISODE_CENSUS_H

#include "episode/episode.h"
#include "episode/rules.h"

/* Counts an episode (settled) into the census; `line` is for messages. */
void census_take(const struct episode *e, const char *episode_id, int64_t line);

/* Objects to what the set as a whole breaks. Coverage is asked for where the
 * set holds every op, GPU and scenario somewhere. With `is_default` the set must
 * also be the default build: its size and its figures. */
void census_close(const struct objector *o, bool is_default);

#endif

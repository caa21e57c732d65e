/*
 * swarm.h - the player: gives a task a team, and plays its episode.
 *
 * Everything drawn is a function of the task's seed. Strings live in the
 * arena given; it may be reset once the row is emitted.
 */
#ifndef SWARM_SWARM_H
#define SWARM_SWARM_H

#include "base/arena.h"
#include "episode/episode.h"

/* Fills scenario, n_agents, agents and assignments of e for e->task. scenario
 * NULL: by the task's index, in turns of as many tasks as there are GPUs, so
 * that each run of (GPUs x scenarios) tasks holds every pair. NULL on success,
 * else what is wrong (no such scenario). */
const char *swarm_plan(struct episode *e, const char *scenario, struct arena *a);

/* Plays the planned episode: fills baseline_ms, env and the messages (of which
 * e->messages must hold EP_MAX_MESSAGES). */
void swarm_play(struct episode *e, struct arena *a);

#endif

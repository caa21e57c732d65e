/*
 * play.h - for unit tests: the n-th task of a seed, planned and played.
 */
#ifndef TESTS_UNIT_PLAY_H
#define TESTS_UNIT_PLAY_H

#include <string.h>

#include "base/rng.h"
#include "ops/catalog.h"
#include "swarm/swarm.h"

/* Plans and plays task `index` of `seed`; every agent gets `skill` unless it is
 * negative. The episode and its strings live until the next call. */
static struct episode *play_task(uint64_t seed, int64_t index, const char *scenario, double skill,
                                 struct arena *a)
{
	static struct message messages[EP_MAX_MESSAGES];
	static struct episode e;
	struct catalog c;
	struct problem p;

	arena_reset(a);
	catalog_open(&c, NULL, NULL);
	catalog_train(&c, seed, index, &p);
	e.task = (struct task){ .task_id = "t",
		                .split = "train",
		                .index = index,
		                .seed = rng_mix2(seed, (uint64_t)index),
		                .op = p.op,
		                .impl = p.impl,
		                .gpu = p.gpu,
		                .dtype = p.dtype };
	memcpy(e.task.shape, p.shape, sizeof e.task.shape);
	e.messages = messages;
	swarm_plan(&e, scenario, a);
	for (int i = 0; i < e.n_agents && skill >= 0; i++)
		e.agents[i].skill = skill;
	swarm_play(&e, a);
	return &e;
}

#endif

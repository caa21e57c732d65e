/*
 * env.h - the simulated environment: compiles, verifies and times a candidate
 * by the analytic model.
 */
#ifndef SWARM_ENV_H
#define SWARM_ENV_H

#include "base/arena.h"
#include "episode/episode.h"
#include "model/model.h"
#include "ops/config.h"

/* What a task row says, as a problem. */
struct problem env_problem(const struct task *t);

/* The naive variant at its preset parameters, free of noise: ms, rounded. */
double env_baseline_ms(const struct problem *p);

/* One candidate. `fault` NULL: none. */
struct trial {
	const struct kernel *kernel;
	const int64_t *params;
	const struct kernel_fault *fault;
};

/*
 * Fills status, compile, verify and bench of `m` as if the candidate had run.
 * Equal (seed, source) gives equal numbers. fault_line is where the fault
 * stands in the source (kernel_render). Text lives in `a`. False when the
 * configuration is illegal for the problem: then status is launch_error.
 */
bool env_run(const struct problem *p, uint64_t seed, const struct trial *trial,
             uint64_t source_hash, int fault_line, struct arena *a, struct message *m);

/* A second timing of a candidate that verified: draws afresh by `counter`. */
double env_again(const struct problem *p, uint64_t seed, uint64_t source_hash, double us,
                 int counter);

#endif

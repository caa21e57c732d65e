/*
 * schedule.h - jobs through the builder and the pool, in the order in which
 * they were added as far as their objects are ready.
 */
#ifndef GPURUN_SCHEDULE_H
#define GPURUN_SCHEDULE_H

#include "gpurun/build.h"
#include "gpurun/pool.h"

/* The caller's, until `done` has been called. */
struct job {
	struct object *object; /* NULL: a request without one */
	const char *name;      /* without an object, what the request calls one; NULL: "" */
	bool build_only;       /* nothing is asked of a worker */
	const bool *cancel;    /* NULL, or: true once nobody cares any more */
	const bool *after;     /* NULL, or: it is not begun before this is true */
	struct run run;        /* kind and request (without its object) are set */
	/* Called once, with run.end END_NONE where nothing was asked of a worker:
	 * cancelled, only to be built, or with an object that is not fit to be
	 * loaded: see object->state and ->forbidden. May add jobs. */
	void (*done)(struct job *j);
	void *owner;
	struct job *next; /* private */
};

struct schedule_options {
	/* Nothing is asked of a worker before all that waits is built: compilers
	 * do not run beside a clock. */
	bool timed;
	/* Nothing is begun after this time on the clock of host_seconds; 0: any. */
	double until;
};

void schedule_open(const struct schedule_options *o);
void schedule_add(struct job *j);
/* Until every job is done or the time is up. Returns how many were not begun;
 * these are forgotten without a call of `done`. */
int schedule_run(void);
/* Whether the time is up. */
bool schedule_late(void);

#endif

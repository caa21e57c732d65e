/*
 * pool.h - workers: processes that answer requests of protocol.h, their
 * deadlines, their deaths, and the spare that waits beside them.
 *
 * One pool per process; it works while host_poll runs. A worker is replaced
 * after a CUDA error, a deadline, its death or so many requests.
 */
#ifndef GPURUN_POOL_H
#define GPURUN_POOL_H

#include <stdbool.h>

#include "gpurun/protocol.h"

enum worker_kind { WORKER_CUDA, WORKER_TRITON, WORKER_KINDS };

/* One request and what came of it. The caller's; the pool holds it from
 * pool_give until `done` is called. */
struct run {
	enum worker_kind kind;
	struct run_request request; /* all but id */
	void (*done)(struct run *r);
	void *owner;
	enum run_end {
		END_NONE,
		END_ANSWER,  /* see answer */
		END_CRASHED, /* the worker died of it, twice */
		END_TIMEOUT, /* the deadline */
		END_INFRA    /* nobody's fault but the machine's: text */
	} end;
	struct run_answer answer;
	char text[RUN_TEXT];
	int tries; /* private */
};

struct pool_options {
	/* argv of each kind without the --socket; argv[0] NULL: there is none. */
	char *argv[WORKER_KINDS][4];
	const char *missing[WORKER_KINDS]; /* why there is none */
	int active[WORKER_KINDS];          /* workers that may be at work together */
	bool exclusive;                    /* never two workers at work, of any kind */
	double deadline_s;                 /* of a request */
	double start_s;                    /* until the hello */
	int lifetime;                      /* requests of one worker */
	const char *log;                   /* file that they print into */
};

/* Starts nothing yet. */
void pool_open(const struct pool_options *o);
/* Ends all workers. Nothing may be in the pool. */
void pool_close(void);

/* What a worker of that kind said of its device: starts one and waits for it
 * where none has spoken yet. Dies (EX_IO), with the worker's last words, if
 * none can be started. */
const struct run_hello *pool_hello(enum worker_kind k);

/* Whether pool_give would find a worker with room. */
bool pool_has_room(enum worker_kind k);
void pool_give(struct run *r);
/* Requests given and not done. */
int pool_busy(void);
/* To be called before each host_poll; returns when again, at the latest. */
double pool_tick(void);
/* The next request goes to a process that has not been asked before. Nothing
 * may be in the pool. */
void pool_fresh(void);

#endif

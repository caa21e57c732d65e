/*
 * protocol.h - what bench asks of bench-worker, and what it is told.
 *
 * One SOCK_SEQPACKET pair per worker; a request and an answer are one fixed
 * struct each, so there is nothing to parse. Plain C: both sides include it.
 *
 * bench starts `bench-worker --socket FD`, FD being the worker's end, with stdin
 * from /dev/null and stdout and stderr in a log of bench's: whatever a candidate
 * prints ends there. The worker says hello when its context stands (before it
 * takes memory: a spare waits beside the worker that is at work, and the arena
 * is taken at the first request, when the other has gone). It then answers
 * request after request in order, and exits 0 when bench closes its end. Several
 * requests may be queued in the socket; there is no other concurrency. bench
 * keeps the deadlines and kills; requests that the dead worker had not begun are
 * asked again of the next one.
 *
 * Requests of one (op, dtype, shape, seed) come one after the other where that is
 * possible, so a worker may keep the inputs and references of the last problem.
 * A request without RUN_VERIFY is asked only of a worker that has passed the same
 * (object, op, dtype, shape) before, and right after it, or has no object (""),
 * for RUN_STREAM and RUN_FLOOR.
 */
#ifndef GPURUN_PROTOCOL_H
#define GPURUN_PROTOCOL_H

#include <stdint.h>

enum {
	RUN_PROTOCOL = 3, /* changes with any struct below */
	RUN_MAX_AXES = 6,
	RUN_MAX_SAMPLES = 64,
	RUN_PATH = 1024,
	RUN_TEXT = 256
};

enum run_what {
	RUN_VERIFY = 1, /* all input families, guards, neighbouring shapes */
	RUN_TIME = 2,   /* timed samples; only after a passed verification */
	RUN_STREAM = 4, /* time the yardstick `stream` for the same bytes and mix */
	RUN_FLOOR = 8   /* time the empty kernel */
};

/* Wide enough for every op; unused axes are 0. */
struct run_request {
	uint64_t id;
	uint32_t what; /* or of RUN_* */
	char op[32], dtype[8];
	int64_t shape[RUN_MAX_AXES];
	uint64_t seed;
	char object[RUN_PATH];             /* the candidate's shared object; "" for none */
	int32_t max_samples;               /* <= RUN_MAX_SAMPLES */
	double budget_ms;                  /* of timed work, 200 */
	double gap_ms;                     /* idle before each sample block (noise study) */
	int64_t bytes_read, bytes_written; /* RUN_STREAM */
};

/* the ops' definitions, judging order. */
enum run_reason {
	REASON_NONE,
	RUN_LEFT_STREAM,
	RUN_NO_WORK,
	RUN_FORBIDDEN_NODE,
	RUN_NONFINITE,
	RUN_UNWRITTEN,
	RUN_MISMATCH,
	RUN_LOW_PRECISION,
	RUN_INPUT_CHANGED,
	RUN_OUT_OF_BOUNDS,
	RUN_UNSTABLE,
	RUN_SHAPE_SPECIFIC,
	RUN_STALE,
	RUN_FORBIDDEN_SYMBOL, /* Triton alone: bench itself looks at shared objects */
	RUN_REASONS
};

enum run_status {
	RUN_PASSED,
	RUN_FAILED,       /* verify failed, with a reason */
	RUN_LAUNCH_ERROR, /* the launcher returned an error */
	RUN_CRASHED,      /* a CUDA error while it ran: the worker exits after this answer */
	RUN_INFRA,        /* the worker's own trouble (memory, a refused object) */
	RUN_UNCOMPILED    /* Triton: its compiler refuses it; text says why */
};

struct run_answer {
	uint64_t id;
	int32_t status;      /* run_status */
	int32_t reason;      /* run_reason */
	char text[RUN_TEXT]; /* a CUDA error's name, a family, an index */
	/* Worst over the verified runs on F1, the timed family, or of the run that
	 * failed; -1 unknown. Relative: to |r| plus the rms of r's error row. */
	double max_abs_err, max_rel_err;
	int32_t samples;
	float ms[RUN_MAX_SAMPLES]; /* in the order taken */
	float floor_ms;            /* median of the empty kernel; -1 not asked */
	float stream_ms;           /* median of the fastest stream kernel; -1 not asked */
	/* Of the candidate's kernel with the most threads in its grid; local_bytes
	 * is the largest of all. -1 not known. */
	int32_t registers, smem_bytes, local_bytes, threads;
	int32_t sm_mhz_before, sm_mhz_after; /* -1 not known */
	int64_t arena_bytes;
};

/* Told once, when a worker has its context. */
struct run_hello {
	int32_t protocol; /* RUN_PROTOCOL */
	int32_t cc, sms;
	char gpu[96], driver[32], cuda[32];
	int64_t l2_bytes, memory_bytes;
};

#endif

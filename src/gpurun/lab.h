/*
 * lab.h - what all of bench's ways of working share: the device, the options,
 * how a configuration becomes an object and a job.
 */
#ifndef GPURUN_LAB_H
#define GPURUN_LAB_H

#include "gpurun/answer.h"
#include "gpurun/schedule.h"
#include "kernels/kernel.h"
#include "ops/config.h"
#include "row/row.h"

struct lab {
	const struct gpu *gpu;
	const struct run_hello *device; /* NULL: nothing is run */
	uint64_t seed;
	int samples;                /* at most, of one timing */
	double budget_ms;           /* of one timing */
	const char *ops, *variants; /* comma-separated; NULL: all */
};

/* Whether op and variant are among those asked for. */
bool lab_wants_op(const struct lab *l, const char *op);
bool lab_wants_variant(const struct lab *l, const char *variant);

/* The object of a source for the lab's GPU (or for `arch`, if it is not NULL). */
struct object *lab_build(const struct lab *l, const struct op *op, bool triton,
                         enum build_mode mode, const char *arch, const char *source, size_t len,
                         const char *group);
/* The same of a kernel file's rendering; *line as kernel_render. A source with a
 * fault, and that of a variant the GPU cannot have, is built alone. */
struct object *lab_render(const struct lab *l, const struct kernel *k, const struct op *op,
                          enum dtype dtype, const int64_t *params, const struct kernel_fault *f,
                          enum build_mode mode, const char *arch, int *line);

/* A job that asks `what` (or of RUN_*) of a problem's candidate. */
void lab_job(const struct lab *l, struct job *j, const struct problem *p, struct object *o,
             unsigned what, uint64_t seed);
/* The yardstick for a problem's bytes, and the empty kernel: measured once per
 * number of bytes and process. */
struct yardstick {
	double floor_ms, stream_ms; /* NAN: not measured */
	bool done;                  /* what a job that wants them comes after */
	int64_t read, written;      /* private, like what follows */
	struct job job;
	struct yardstick *next;
};
/* Adds its job at the first asking. */
const struct yardstick *lab_yardstick(const struct lab *l, const struct problem *p);

/* A row to stdout at once: whoever is killed has lost nothing. */
void lab_emit(struct row *r, const json *j);

/* The members op to shape, variant, params and fault of a configuration. */
void lab_write_config(json *root, const struct problem *p, const struct kernel *k,
                      const int64_t *params, const struct kernel_fault *f);

#endif

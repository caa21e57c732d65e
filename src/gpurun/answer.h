/*
 * answer.h - what came of a candidate, in the words of rows: status, compile,
 * verify, bench, provenance.
 */
#ifndef GPURUN_ANSWER_H
#define GPURUN_ANSWER_H

#include "episode/episode.h"
#include "gpurun/build.h"
#include "gpurun/pool.h"
#include "ops/config.h"
#include "row/json.h"

/* What was found of one candidate. */
struct finding {
	const struct problem *problem;
	const struct object *object;
	const struct run *run;
	bool unmet;                     /* a variant of ours whose needs the GPU does not meet */
	double floor_ms, stream_ms;     /* NAN: not measured */
	const struct run_hello *device; /* NULL: none was needed */
};

/* The numbers of a timed run, all in ms. */
struct timing {
	int n;
	double median, p10, p90, cv; /* cv: relative error of the median */
};

void timing_of(const float *ms, int n, struct timing *out);

/* The word of an enum run_reason. */
const char *answer_reason(int reason);

/* Fills status, compile, verify and bench. The log is the object's. */
void answer_message(const struct finding *f, struct message *m);

/*
 * A time that physics forbids (physical floor) is an error, not a
 * row: the least time possible if the run's median is below it, else 0.
 */
double answer_impossible(const struct finding *f);

/* {gpu, driver, cuda, date, clocks_before, clocks_after, samples, median_ms,
 * p10_ms, p90_ms, floor_ms, stream_ms, source_hash, arch, nvcc, note}. */
json *answer_provenance(const struct finding *f);

/* The row of gpu.def that the device is; NULL if it is none. */
const struct gpu *answer_gpu(const struct run_hello *h);

#endif

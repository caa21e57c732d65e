/*
 * model.h - the analytic latency model: arithmetic on structs, nothing else.
 *
 * t = Σ over launches of  floor + max(body, waves × chain), where body is the
 * largest of the DRAM, L2, tensor, issue and special-function times plus a
 * share of the second largest, for imperfect overlap. Bandwidth follows
 * Little's law in the bytes in flight, the number of active SMs and the tail
 * wave; compute is quantised to whole tiles per SM; re-reads hit L2 while one
 * wave's working set fits; registers beyond the limit spill, as a cliff.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "gpu/gpu.h"
#include "ops/config.h"

enum limiter {
	LIMIT_MEMORY,    /* bandwidth of DRAM or L2 */
	LIMIT_OCCUPANCY, /* too few bytes in flight to reach it */
	LIMIT_LATENCY,   /* dependent steps, or too few blocks */
	LIMIT_TENSOR,    /* tensor pipe */
	LIMIT_ALU,       /* issue slots or special functions */
	LIMIT_LAUNCH,    /* launch overhead */
	LIMIT_COUNT
};

/* The quantities that a move may change; summed or taken over the launches
 * of a configuration, so that two configurations can be compared. */
struct terms {
	double traffic;   /* DRAM and L2 bytes, weighted by time */
	double in_flight; /* bytes in flight on the GPU, of the largest launch */
	double serial;    /* µs of waves × chain */
	double tensor;    /* µs on the tensor pipe */
	double issue;     /* µs of issue and special functions */
	double launches;  /* µs of launch overhead */
};

struct estimate {
	double us;        /* whole time, microseconds */
	double floor_us;  /* of it, launch overhead: no time is below it */
	double occupancy; /* of the launch that takes longest, 0 … 1 */
	enum limiter limiter;
	int registers; /* per thread, of that launch, after the cap */
	int64_t smem;  /* bytes per block, the largest launch */
	int64_t spill; /* bytes per thread, the largest */
	struct terms terms;
};

const char *limiter_name(enum limiter l);
int limiter_from_name(const char *name); /* -1 unknown */

/* The time of these launches on this GPU. Launches must be in CUDA's range
 * (config_resources). False when a block cannot be resident at all. */
bool model_estimate(const struct gpu *g, const struct resources *r, struct estimate *out);

/* config_try and model_estimate in one: false when the configuration cannot
 * run on the problem's GPU, else its launches and their time. */
bool model_try(const struct problem *p, struct binding *b, const int64_t *params,
               struct resources *r, struct estimate *out);

/* Speed of light of compulsory work: bytes at peak bandwidth, operations at
 * the op's pipe's peak; microseconds. The physical floor of a measured row
 * (written bytes up to the L2 size may still be in L2). */
double model_floor_us(const struct problem *p);

/* Whether going from `a` to `b` relieves what `limiter` says: fewer bytes for
 * memory, more in flight for occupancy, a shorter serial path for latency,
 * and so on; by at least 5 %. */
bool model_relieves(enum limiter limiter, const struct terms *a, const struct terms *b);

/* Relative error of the median of a benchmark that takes `us`: event jitter
 * over the time, and a floor for clock and DRAM refresh. */
double model_noise(double us);

#endif

/*
 * sweep.h - the committed measurements: a sweep over configurations, the noise
 * of repeated timing, and PyTorch's own operators.
 *
 * Each prints result rows with a few keys of its own, in an order in which any
 * beginning is of use: all ops before the next shape. Files given to --done are
 * loaded with the members named here.
 */
#ifndef GPURUN_SWEEP_H
#define GPURUN_SWEEP_H

#include "gpurun/lab.h"

extern const char *const sweep_members[], *const noise_members[], *const peers_members[];

struct sweep_options {
	int configs; /* per op and impl: 28 in 40 correct, 3 + 3 faulty, 6 poor */
	int shapes;  /* of the op's table, from its beginning */
	bool build_only;
};

/*
 * For each (op, impl) one seeded set of configurations at each of its first
 * shapes, in random order; a tenth of them again in a fresh process. Own keys:
 * `role` (correct, compile, wrong, poor) and `process` (1, 2).
 * EX_ROW if a time was impossible.
 */
int sweep_run(const struct lab *l, const struct sweep_options *o);

/*
 * How much repeated timing of one kernel varies. From the rows of `from` (a
 * sweep's) three kernels per op nearest to 3 us, 30 us, 300 us and 3 ms are
 * taken; in five processes four blocks of samples of each are timed, in random
 * order, after idle gaps of 0, 50 ms or 1 s. One row per block, not a result
 * row: the samples in `ms`.
 */
int noise_run(const struct lab *l, const char *from);

/* PyTorch's operators of the ops' definitions at the same shapes, timed alike: `eager`,
 * and `compiled` for rmsnorm, rope and swiglu_act; key `peer`. */
int peers_run(const struct lab *l, int shapes);

#endif

/*
 * labels.h - `bench --labels`: what the kernel files claim, proved.
 *
 * A label is one claim, known by a hash of all that it rests on (the tokens of
 * the renderings, parameters and their values, conditions):
 *   verifies  the variant is right, per dtype: up to three parameter sets at
 *             five shapes each
 *   wrong     the fault fails: three sets at five shapes with three seeds
 *   compile   the fault gives its message on its line, on every arch
 *   arch      nvcc takes the variant where its needs are met, refuses it elsewhere
 * The last two need no GPU. A row is printed as soon as its label is decided.
 */
#ifndef GPURUN_LABELS_H
#define GPURUN_LABELS_H

#include "gpurun/lab.h"

/* Before labels_run, --done files are loaded with these members. */
extern const char *const labels_members[];

struct labels_options {
	bool build_only;   /* compile all, run nothing */
	const char *kinds; /* only these, comma-separated: verifies, wrong, arch, compile */
	bool list;         /* prove nothing: name what done_has does not know */
};

/* NULL if there is such a kind of label, else what is wrong. */
const char *labels_kind(const char *name);

/* Proves all labels that done_has does not know, breadth first over the
 * variants. Without l->device only those that need none. Returns EX_DONE, or
 * EX_ROW if a label does not hold (or, listing, is not known). */
int labels_run(const struct lab *l, const struct labels_options *o);

#endif

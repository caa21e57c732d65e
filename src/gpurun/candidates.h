/*
 * candidates.h - rows in, result rows out: bare candidates, and the candidates
 * of episodes.
 *
 * Candidates are taken in windows, so that all of a window compile together; the
 * order of the rows is kept, and each is printed as soon as those before it are.
 */
#ifndef GPURUN_CANDIDATES_H
#define GPURUN_CANDIDATES_H

#include "gpurun/lab.h"

struct candidates_options {
	bool build_only;  /* compile, run and print nothing */
	bool verify_only; /* time nothing */
};

void candidates_start(const struct lab *l, const struct candidates_options *o);
/* Takes a candidate row, or all candidates of an episode row. Those of another
 * GPU and those that done_has knows are left out. Fails the row. */
void candidates_take(struct row *r);
void candidates_take_episode(struct row *r);
/* Answers for what has been taken; the rows' functions may go on after it. */
void candidates_before_end(void);
/* The rest. Returns EX_DONE, or EX_ROW if a time was impossible. */
int candidates_finish(void);

#endif

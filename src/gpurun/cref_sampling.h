/*
 * cref_sampling.h - the kept sets and the draw of the ops' definitions 10, 11 in plain
 * C, for one row of V logits (-INFINITY allowed). Sorted order is by logit,
 * descending, then by index. Mass is exp(logit - the largest).
 */
#ifndef GPURUN_CREF_SAMPLING_H
#define GPURUN_CREF_SAMPLING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* kept[i] = 1 for the K largest logits, 0 for the others. */
void cref_keep_topk(const double *logits, int64_t V, int64_t K, char *kept);
/* kept[i] = 1 for the shortest sorted prefix with top_p of the row's mass. */
void cref_keep_nucleus(const double *logits, int64_t V, double top_p, char *kept);
/* The kept token that is last in sorted order. */
int64_t cref_last_kept(const double *logits, int64_t V, const char *kept);
/* The least kept token at which the running sum of the kept mass, by index,
 * passes rnd of its total, which is stored. */
int64_t cref_draw(const double *logits, int64_t V, const char *kept, double rnd, double *total);

#ifdef __cplusplus
}
#endif

#endif

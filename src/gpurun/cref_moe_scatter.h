/* cref_moe_scatter.h - the offsets of the ops' definitions 13 in plain C. */
#ifndef GPURUN_CREF_MOE_SCATTER_H
#define GPURUN_CREF_MOE_SCATTER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ids[T,K]; offsets[E+1], the exclusive prefix of the experts' counts. Returns
 * -1 if an id is no expert or comes twice in a token, else how many experts
 * are used. */
int cref_moe_scatter(const double *ids, double *offsets, int64_t T, int64_t E, int64_t K);

#ifdef __cplusplus
}
#endif

#endif

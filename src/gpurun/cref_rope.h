/* cref_rope.h - the rotation of the ops' definitions 8 in plain C. */
#ifndef GPURUN_CREF_ROPE_H
#define GPURUN_CREF_ROPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x[T,H,D], pos[T], table[8192,D] (cosines, then sines), y[T,H,D]. */
void cref_rope(const double *x, const double *pos, const double *table, double *y, int64_t T,
               int64_t H, int64_t D);
/* table[8192,D] itself, unrounded. */
void cref_rope_table(double *table, int64_t D);

#ifdef __cplusplus
}
#endif

#endif

/* cref_fused_qkv_rope.h - the ops' definitions 15 in plain C. */
#ifndef GPURUN_CREF_FUSED_QKV_ROPE_H
#define GPURUN_CREF_FUSED_QKV_ROPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_axes {
	int64_t T, H, HKV, D, E;
};

/* x[T,E], w[(H+2HKV)D,E], pos[T], table[8192,D] (cosines, then sines);
 * q[T,H,D], k[T,HKV,D], v[T,HKV,D]. */
void cref_fused_qkv_rope(const double *x, const double *w, const double *pos, const double *table,
                         double *q, double *k, double *v, const struct qkv_axes *axes);

#ifdef __cplusplus
}
#endif

#endif

/* cref_rmsnorm.h - the norm of the ops' definitions 7 in plain C. */
#ifndef GPURUN_CREF_RMSNORM_H
#define GPURUN_CREF_RMSNORM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[t,d] = x[t,d] / sqrt(mean of x[t,:]^2 + eps) * w[d]; x[T,D], w[D], y[T,D]. */
void cref_rmsnorm(const double *x, const double *w, double *y, int64_t T, int64_t D, double eps);

#ifdef __cplusplus
}
#endif

#endif

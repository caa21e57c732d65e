/* cref_swiglu.h - the activation of the ops' definitions 9 in plain C. */
#ifndef GPURUN_CREF_SWIGLU_H
#define GPURUN_CREF_SWIGLU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x[T,2I] (gates, then ups), y[T,I] = gate / (1 + exp(-gate)) * up. */
void cref_swiglu(const double *x, double *y, int64_t T, int64_t I);

#ifdef __cplusplus
}
#endif

#endif

/* cref_int4_gemv.h - the product of the ops' definitions 6 in plain C. */
#ifndef GPURUN_CREF_INT4_GEMV_H
#define GPURUN_CREF_INT4_GEMV_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x[M,K], w[N,K/2] (a byte per element: low nibble k = 2j, high nibble
 * k = 2j+1), s[N,K/G], y[M,N]. fp4: nibbles are e2m1, else q - 8. */
void cref_int4_gemv(const double *x, const double *w, const double *s, double *y, int64_t M,
                    int64_t N, int64_t K, int64_t G, int fp4);

#ifdef __cplusplus
}
#endif

#endif

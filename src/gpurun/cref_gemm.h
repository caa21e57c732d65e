/* cref_gemm.h - the products of the ops' definitions 3, 4, 5 in plain C. */
#ifndef GPURUN_CREF_GEMM_H
#define GPURUN_CREF_GEMM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* a[M,K], b[N,K], c[M,N] = sum over k of a[m,k] * b[n,k]. */
void cref_gemm(const double *a, const double *b, double *c, int64_t M, int64_t N, int64_t K);
/* c[m,n] *= sa[m] * sb[n]. */
void cref_scale_each(double *c, const double *sa, const double *sb, int64_t M, int64_t N);
/* c[m,n] *= sa * sb. */
void cref_scale_all(double *c, double sa, double sb, int64_t M, int64_t N);

#ifdef __cplusplus
}
#endif

#endif

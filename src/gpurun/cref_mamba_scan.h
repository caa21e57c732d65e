/* cref_mamba_scan.h - the selective scan of the ops' definitions 12 in plain C. */
#ifndef GPURUN_CREF_MAMBA_SCAN_H
#define GPURUN_CREF_MAMBA_SCAN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* u, dt, z, y[B,L,D]; A[D,N]; Bm, Cm[B,L,N]; Dskip, dt_bias[D]; h0, h[B,D,N], the states before the
 * first and after the last step. */
void cref_mamba_scan(const double *u, const double *dt, const double *z, const double *A,
                     const double *Bm, const double *Cm, const double *Dskip, const double *dt_bias,
                     const double *h0, double *y, double *h, int64_t B, int64_t L, int64_t D,
                     int64_t N);

#ifdef __cplusplus
}
#endif

#endif

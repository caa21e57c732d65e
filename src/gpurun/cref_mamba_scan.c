#include <math.h>

#include "gpurun/cref_mamba_scan.h"

void cref_mamba_scan(const double *u, const double *dt, const double *z, const double *A,
                     const double *Bm, const double *Cm, const double *Dskip, const double *dt_bias,
                     const double *h0, double *y, double *h, int64_t B, int64_t L, int64_t D,
                     int64_t N)
{
	int64_t b, l, d, n;

	for (n = 0; n < B * D * N; n++)
		h[n] = h0[n];
	for (b = 0; b < B; b++)
		for (l = 0; l < L; l++)
			for (d = 0; d < D; d++) {
				int64_t row = b * L + l, at = row * D + d;
				double v = dt[at] + dt_bias[d];
				double delta = v > 20 ? v : log1p(exp(v));
				double o = Dskip[d] * u[at];

				for (n = 0; n < N; n++) {
					double *s = h + (b * D + d) * N + n;

					*s = exp(delta * A[d * N + n]) * *s +
					     delta * u[at] * Bm[row * N + n];
					o += *s * Cm[row * N + n];
				}
				y[at] = o * z[at] / (1 + exp(-z[at]));
			}
}

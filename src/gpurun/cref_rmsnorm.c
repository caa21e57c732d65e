#include <math.h>

#include "gpurun/cref_rmsnorm.h"

void cref_rmsnorm(const double *x, const double *w, double *y, int64_t T, int64_t D, double eps)
{
	int64_t t, d;

	for (t = 0; t < T; t++) {
		double sum = 0;

		for (d = 0; d < D; d++)
			sum += x[t * D + d] * x[t * D + d];
		for (d = 0; d < D; d++)
			y[t * D + d] = x[t * D + d] / sqrt(sum / (double)D + eps) * w[d];
	}
}

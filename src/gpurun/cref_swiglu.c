#include <math.h>

#include "gpurun/cref_swiglu.h"

void cref_swiglu(const double *x, double *y, int64_t T, int64_t I)
{
	int64_t t, i;

	for (t = 0; t < T; t++)
		for (i = 0; i < I; i++) {
			double gate = x[t * 2 * I + i];

			y[t * I + i] = gate / (1 + exp(-gate)) * x[t * 2 * I + I + i];
		}
}

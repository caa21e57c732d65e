#include "gpurun/cref_int4_gemv.h"

static double weight(int q, int fp4)
{
	static const double e2m1[16] = { 0,   0.5,  1,  1.5,  2,  3,  4,  6,
		                         -0., -0.5, -1, -1.5, -2, -3, -4, -6 };

	return fp4 ? e2m1[q] : q - 8;
}

void cref_int4_gemv(const double *x, const double *w, const double *s, double *y, int64_t M,
                    int64_t N, int64_t K, int64_t G, int fp4)
{
	int64_t m, n, k;

	for (m = 0; m < M; m++)
		for (n = 0; n < N; n++) {
			double sum = 0;

			for (k = 0; k < K; k++) {
				int byte = (int)w[n * (K / 2) + k / 2];
				int q = k % 2 ? byte / 16 : byte % 16;

				sum += x[m * K + k] * weight(q, fp4) * s[n * (K / G) + k / G];
			}
			y[m * N + n] = sum;
		}
}

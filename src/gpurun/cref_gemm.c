#include "gpurun/cref_gemm.h"

void cref_gemm(const double *a, const double *b, double *c, int64_t M, int64_t N, int64_t K)
{
	int64_t m, n, k;

	for (m = 0; m < M; m++)
		for (n = 0; n < N; n++) {
			double sum = 0;

			for (k = 0; k < K; k++)
				sum += a[m * K + k] * b[n * K + k];
			c[m * N + n] = sum;
		}
}

void cref_scale_each(double *c, const double *sa, const double *sb, int64_t M, int64_t N)
{
	int64_t m, n;

	for (m = 0; m < M; m++)
		for (n = 0; n < N; n++)
			c[m * N + n] *= sa[m] * sb[n];
}

void cref_scale_all(double *c, double sa, double sb, int64_t M, int64_t N)
{
	int64_t i;

	for (i = 0; i < M * N; i++)
		c[i] *= sa * sb;
}

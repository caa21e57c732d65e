#include <math.h>

#include "gpurun/cref_attention.h"

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	int64_t i;

	for (i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* One head; k and v are those of its keys, n of them. */
static void attend(const double *q, const double *k, const double *v, double *o, int64_t n,
                   int64_t D, double scale, double vscale)
{
	double most = -HUGE_VAL, sum = 0;
	int64_t j, d;

	for (j = 0; j < n; j++)
		most = fmax(most, dot(q, k + j * D, D) * scale);
	for (d = 0; d < D; d++)
		o[d] = 0;
	for (j = 0; j < n; j++) {
		double p = exp(dot(q, k + j * D, D) * scale - most);

		sum += p;
		for (d = 0; d < D; d++)
			o[d] += p * v[j * D + d];
	}
	for (d = 0; d < D; d++)
		o[d] = o[d] / sum * vscale;
}

void cref_attention(const double *q, const double *k, const double *v, double *o, int64_t B,
                    int64_t H, int64_t HKV, int64_t S, int64_t first, int64_t D, double kscale,
                    double vscale)
{
	int64_t b, h;

	for (b = 0; b < B; b++)
		for (h = 0; h < H; h++) {
			int64_t at = (b * H + h) * D;
			int64_t keys = ((b * HKV + h / (H / HKV)) * S + first) * D;

			attend(q + at, k + keys, v + keys, o + at, S - first, D,
			       kscale / sqrt((double)D), vscale);
		}
}

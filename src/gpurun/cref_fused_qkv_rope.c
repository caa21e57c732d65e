#include "gpurun/cref_fused_qkv_rope.h"

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	int64_t i;

	for (i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

void cref_fused_qkv_rope(const double *x, const double *w, const double *pos, const double *table,
                         double *q, double *k, double *v, const struct qkv_axes *axes)
{
	int64_t H = axes->H, HKV = axes->HKV, D = axes->D, E = axes->E;
	int64_t t, head, i;

	for (t = 0; t < axes->T; t++)
		for (head = 0; head < H + 2 * HKV; head++) {
			double *out = head < H         ? q + (t * H + head) * D
			              : head < H + HKV ? k + (t * HKV + head - H) * D
			                               : v + (t * HKV + head - H - HKV) * D;
			const double *row = table + (int64_t)pos[t] * D;

			for (i = 0; i < D / 2; i++) {
				double lo = dot(x + t * E, w + (head * D + i) * E, E);
				double hi = dot(x + t * E, w + (head * D + i + D / 2) * E, E);
				double c = head < H + HKV ? row[i] : 1;
				double s = head < H + HKV ? row[i + D / 2] : 0;

				out[i] = lo * c - hi * s;
				out[i + D / 2] = hi * c + lo * s;
			}
		}
}

#include <math.h>

#include "gpurun/cref_rope.h"

void cref_rope(const double *x, const double *pos, const double *table, double *y, int64_t T,
               int64_t H, int64_t D)
{
	int64_t half = D / 2;
	int64_t t, h, i;

	for (t = 0; t < T; t++)
		for (h = 0; h < H; h++)
			for (i = 0; i < half; i++) {
				const double *row = table + (int64_t)pos[t] * D;
				const double *a = x + (t * H + h) * D;
				double *b = y + (t * H + h) * D;

				b[i] = a[i] * row[i] - a[i + half] * row[half + i];
				b[i + half] = a[i + half] * row[i] + a[i] * row[half + i];
			}
}

void cref_rope_table(double *table, int64_t D)
{
	int64_t p, i;

	for (p = 0; p < 8192; p++)
		for (i = 0; i < D / 2; i++) {
			double angle = (double)p / pow(10000, 2 * (double)i / (double)D);

			table[p * D + i] = cos(angle);
			table[p * D + D / 2 + i] = sin(angle);
		}
}

#include "gpurun/cref_kv_append.h"

int cref_kv_append(const double *slot, int64_t *source, int64_t T, int64_t HKV, int64_t D,
                   int64_t P, int64_t NP)
{
	int64_t i, t, h, d;

	for (i = 0; i < NP * HKV * P * D; i++)
		source[i] = -1;
	for (t = 0; t < T; t++) {
		int64_t at = (int64_t)slot[t];

		if (at == -1)
			continue;
		if (at < 0 || at >= NP * P)
			return -1;
		for (h = 0; h < HKV; h++)
			for (d = 0; d < D; d++) {
				int64_t *to = source + ((at / P * HKV + h) * P + at % P) * D + d;

				if (*to != -1)
					return -1;
				*to = (t * HKV + h) * D + d;
			}
	}
	return 0;
}

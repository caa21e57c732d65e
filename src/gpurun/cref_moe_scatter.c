#include "gpurun/cref_moe_scatter.h"

int cref_moe_scatter(const double *ids, double *offsets, int64_t T, int64_t E, int64_t K)
{
	int64_t t, k, j, e;
	int used = 0;

	for (e = 0; e <= E; e++)
		offsets[e] = 0;
	for (t = 0; t < T; t++)
		for (k = 0; k < K; k++) {
			double id = ids[t * K + k];

			if (!(id >= 0 && id < (double)E))
				return -1;
			for (j = 0; j < k; j++)
				if (ids[t * K + j] == id)
					return -1;
			for (e = (int64_t)id + 1; e <= E; e++)
				offsets[e]++;
		}
	for (e = 0; e < E; e++)
		used += offsets[e + 1] > offsets[e];
	return used;
}

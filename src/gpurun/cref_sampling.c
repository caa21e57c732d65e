#include <math.h>

#include "gpurun/cref_sampling.h"

/* Whether i comes before t in sorted order. */
static int precedes(const double *logits, int64_t i, int64_t t)
{
	return logits[i] > logits[t] || (logits[i] == logits[t] && i < t);
}

static double largest(const double *logits, int64_t V)
{
	double most = logits[0];
	int64_t i;

	for (i = 1; i < V; i++)
		most = fmax(most, logits[i]);
	return most;
}

void cref_keep_topk(const double *logits, int64_t V, int64_t K, char *kept)
{
	int64_t i, t;

	for (t = 0; t < V; t++) {
		int64_t before = 0;

		for (i = 0; i < V; i++)
			before += precedes(logits, i, t);
		kept[t] = before < K;
	}
}

void cref_keep_nucleus(const double *logits, int64_t V, double top_p, char *kept)
{
	double most = largest(logits, V), all = 0;
	int64_t i, t;

	for (i = 0; i < V; i++)
		all += exp(logits[i] - most);
	for (t = 0; t < V; t++) {
		double before = 0;

		/* A prefix goes on as long as it has less than it must. */
		for (i = 0; i < V; i++)
			if (precedes(logits, i, t))
				before += exp(logits[i] - most);
		kept[t] = before < top_p * all;
	}
}

int64_t cref_last_kept(const double *logits, int64_t V, const char *kept)
{
	int64_t last = -1;
	int64_t i;

	for (i = 0; i < V; i++)
		if (kept[i] && (last < 0 || precedes(logits, last, i)))
			last = i;
	return last;
}

int64_t cref_draw(const double *logits, int64_t V, const char *kept, double rnd, double *total)
{
	double most = largest(logits, V), sum = 0;
	int64_t i;

	*total = 0;
	for (i = 0; i < V; i++)
		if (kept[i])
			*total += exp(logits[i] - most);
	for (i = 0; i < V; i++)
		if (kept[i]) {
			sum += exp(logits[i] - most);
			if (sum > rnd * *total)
				return i;
		}
	return -1;
}

/*
 * check.c - `make model-check`: the model beside public measurements.
 *
 * For each point the model picks its own fastest configuration among all
 * variants (a published number is a tuned library's), and the table prints
 * both times and the error really reached. tests/unit/test_model.c holds the
 * medians that this prints. Sources: public.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/public.h"

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	double errors[256], all[1024];
	int n_all = 0;

	printf("%-26s %-9s %-34s %10s %10s %8s  %s\n", "class", "gpu", "shape", "public us",
	       "model us", "error", "model's choice");
	for (int c = 0; c < public_classes(); c++) {
		int n = 0;
		double sum = 0;

		for (int i = 0; i < public_points(); i++) {
			struct public_point pt = public_point(i);
			struct public_answer a;

			if (pt.class != c)
				continue;
			public_model(&pt, &a);
			errors[n] = fabs(a.us / pt.us - 1);
			sum += errors[n];
			all[n_all++] = errors[n++];
			printf("%-26s %-9s %-34s %10.2f %10.2f %+7.1f%%  %s\n", public_class(c),
			       pt.gpu, a.shape, pt.us, a.us, 100 * (a.us / pt.us - 1), a.choice);
		}
		qsort(errors, (size_t)n, sizeof *errors, by_size);
		printf("# %-24s %d points: mean %.1f %%, median %.1f %%, worst %.1f %%\n",
		       public_class(c), n, 100 * sum / n, 100 * errors[n / 2], 100 * errors[n - 1]);
	}
	qsort(all, (size_t)n_all, sizeof *all, by_size);
	printf("# all %d points: median %.1f %%, 90th percentile %.1f %%\n", n_all,
	       100 * all[n_all / 2], 100 * all[n_all * 9 / 10]);
	return 0;
}

/* rng.c - base/rng: known values, bias, independence of purposes. */
#include "check.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/rng.h"

static void test_splitmix(void)
{
	/* The reference implementation (Vigna, splitmix64.c) seeded with
	 * 1234567. */
	static const uint64_t want[] = {
		6457827717110365317u, 3203168211198807973u,  9817491932198370423u,
		4593380528125082431u, 16408922859458223821u,
	};
	struct rng r = { .key = 1234567 };
	bool good = true;
	int i;

	for (i = 0; i < 5; i++)
		good &= rng_u64(&r) == want[i];
	check(good, "the draws are splitmix64's");
	check(r.counter == 5, "the counter counts draws");
	check(rng_mix2(1, 2) != rng_mix2(2, 1), "rng_mix2 is not symmetric");
}

/* Draws must not move: every data set hangs on them. */
static void test_frozen(void)
{
	struct rng r = rng_make(42, "purpose");

	check(r.key == 6375681991328609049u, "rng_make(42, \"purpose\") is frozen, key %llu",
	      (unsigned long long)r.key);
}

static void test_below(void)
{
	static const uint64_t sizes[] = { 1, 2, 3, 7, 10, 100 };
	struct rng r = rng_make(7, "below");
	const int draws = 1000000;
	size_t k;

	for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		uint64_t n = sizes[k];
		double count[100] = { 0 }, expect = draws / (double)n, chi = 0;
		uint64_t i;
		int d;

		for (d = 0; d < draws; d++)
			count[rng_below(&r, n)]++;
		for (i = 0; i < n; i++)
			chi += (count[i] - expect) * (count[i] - expect) / expect;
		/* Mean n-1, variance 2(n-1); five sigmas. */
		check(chi <= (double)(n - 1) + 5 * sqrt(2 * (double)(n - 1)) + 1e-9,
		      "rng_below(%d) is uniform, chi^2 %.1f", (int)n, chi);
	}
	{
		/* 3 * 2^62: taking the remainder of 64 bits would make the
		 * first third twice as likely. */
		uint64_t n = 3ull << 62;
		int low = 0, d;

		for (d = 0; d < 30000; d++)
			low += rng_below(&r, n) < 1ull << 62;
		check(abs(low - 10000) < 500, "no bias for a huge n, %d of 30000", low);
	}
}

static void test_unit_normal(void)
{
	struct rng r = rng_make(7, "moments");
	const int n = 1000000;
	double sum = 0, square = 0, fourth = 0, x;
	bool inside = true;
	int i;

	for (i = 0; i < n; i++) {
		x = rng_unit(&r);
		inside &= x >= 0 && x < 1;
		sum += x;
	}
	check(inside, "rng_unit stays in [0, 1)");
	check(fabs(sum / n - 0.5) < 5 * 0.2887 / 1000, "its mean is 1/2");
	for (sum = 0, i = 0; i < n; i++) {
		x = rng_normal(&r);
		sum += x;
		square += x * x;
		fourth += x * x * x * x;
	}
	check(fabs(sum / n) < 0.005, "the normal's mean is 0");
	check(fabs(square / n - 1) < 0.008, "its variance is 1");
	check(fabs(fourth / n - 3) < 0.06, "its fourth moment is 3");
}

static void test_weighted(void)
{
	const double w[] = { 0, 1, 0, 3, 0 };
	int count[5] = { 0 }, i;
	struct rng r = rng_make(7, "weights");

	for (i = 0; i < 400000; i++)
		count[rng_weighted(&r, w, 5)]++;
	check(!count[0] && !count[2] && !count[4], "no draw without weight");
	check(abs(count[1] - 100000) < 1500, "draws follow the weights, %d of 400000", count[1]);
}

static void test_purposes(void)
{
	struct rng a = rng_make(1, "a"), b = rng_make(1, "b"), c = rng_make(2, "a");
	int ab = 0, ac = 0, i;

	for (i = 0; i < 100000; i++) {
		uint64_t x = rng_u64(&a);

		ab += __builtin_popcountll(x ^ rng_u64(&b));
		ac += __builtin_popcountll(x ^ rng_u64(&c));
	}
	/* 6.4 million coin tosses: sigma 1265. */
	check(abs(ab - 3200000) < 7000 && abs(ac - 3200000) < 7000,
	      "other purposes and seeds share no bits");
}

int main(void)
{
	test_splitmix();
	test_frozen();
	test_below();
	test_unit_normal();
	test_weighted();
	test_purposes();
	return check_done();
}

/* num.c - base/num against libm, and its parsers against what they must refuse. */
#include "check.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"

/* How many doubles lie between a and b. */
static double ulps(double a, double b)
{
	int64_t x, y;

	memcpy(&x, &a, 8);
	memcpy(&y, &b, 8);
	if (x < 0)
		x = INT64_MIN - x;
	if (y < 0)
		y = INT64_MIN - y;
	return fabs((double)(x - y));
}

static struct rng rng;

static double between(double low, double high)
{
	return low + (high - low) * rng_unit(&rng);
}

/* Any positive normal double, all exponents alike. */
static double any_positive(void)
{
	return ldexp(1 + rng_unit(&rng), (int)rng_below(&rng, 2040) - 1020);
}

typedef double function(double);

static void compare(const char *name, function *ours, function *theirs, double low, double high)
{
	double worst = 0, at = 0, u, x;
	int i;

	for (i = 0; i < 500000; i++) {
		x = low < high ? between(low, high) : any_positive();
		u = ulps(ours(x), theirs(x));
		if (u > worst) {
			worst = u;
			at = x;
		}
	}
	check(worst <= 4, "%s within 4 ulp on [%g, %g], worst %g at %.17g", name, low, high, worst,
	      at);
}

static void test_functions(void)
{
	compare("log2, every exponent,", num_log2, log2, 0, 0);
	compare("log2", num_log2, log2, 0.5, 2);
	compare("log2", num_log2, log2, 0.999, 1.001);
	compare("log2", num_log2, log2, 1, 1e6);
	compare("ln, every exponent,", num_ln, log, 0, 0);
	compare("ln", num_ln, log, 0.5, 2);
	compare("ln", num_ln, log, 0.999, 1.001);
	compare("exp2", num_exp2, exp2, -999, 999);
	compare("exp2", num_exp2, exp2, -1, 1);
	compare("exp", num_exp, exp, -700, 700);
	compare("exp", num_exp, exp, -1, 1);
}

static void test_exact(void)
{
	bool good = true;
	int k;

	for (k = -999; k < 1000; k++)
		good &= num_exp2(k) == ldexp(1, k) && num_log2(ldexp(1, k)) == k;
	check(good, "powers of two are exact both ways");
	check(num_ln(1) == 0 && num_exp(0) == 1, "ln 1 = 0, exp 0 = 1");
}

/* The distribution function through erfc is the judge of its inverse. */
static void test_quantile(void)
{
	double worst = 0, p, x, back;
	int i;

	for (i = 0; i < 200000; i++) {
		p = i % 2 ? rng_unit(&rng) : num_exp2(-between(1, 60));
		if (p <= 0)
			continue;
		x = num_quantile(p);
		back = 0.5 * erfc(-x / sqrt(2));
		/* d ln p = x * dx in the tail, so a relative error e of x is
		 * about x * x * e of p. */
		worst = fmax(worst, fabs(back / p - 1) / (1 + x * x));
	}
	check(worst < 4e-9, "quantile inverts the normal distribution, worst %.3g", worst);
	check(num_quantile(0.5) == 0, "the median is 0");
	check(fabs(num_quantile(0.975) - 1.959963984540054) < 3e-9, "the 97.5 %% point");
	check(num_quantile(0x1p-7) == -num_quantile(1 - 0x1p-7), "symmetric");
}

static void test_round(void)
{
	bool stable = true, near = true;
	double x, y;
	int i, n;

	for (i = 0; i < 200000; i++) {
		n = 1 + (int)rng_below(&rng, 15);
		x = (i % 2 ? -1 : 1) * num_exp2(between(-60, 60));
		y = num_round(x, n);
		stable &= num_round(y, n) == y;
		near &= fabs(y - x) <= fabs(x) * 0.5000001 * pow(10, 1 - n);
	}
	check(stable, "rounding twice is rounding once");
	check(near, "rounding moves by half a unit of the last digit at most");
	check(num_round(0.15000000000000002, 15) == 0.15, "15 digits");
	check(num_time(1234567.0) == 1234570.0 && num_time(0.00012345678) == 0.000123457,
	      "times have 6 digits");
	check(num_value(1.0 / 3) == 0.333333333, "values have 9 digits");
	check(!signbit(num_round(-0.0, 3)) && !signbit(num_value(-0.0)), "-0 becomes 0");
}

static void test_overflow(void)
{
	const int64_t edge[] = {
		INT64_MIN,
		INT64_MIN + 1,
		-3037000500,
		-3,
		-2,
		-1,
		0,
		1,
		2,
		3,
		3037000499,
		3037000500,
		INT64_MAX / 2,
		INT64_MAX / 2 + 1,
		INT64_MAX - 1,
		INT64_MAX,
	};
	const int n = sizeof(edge) / sizeof(*edge);
	bool mul = true, add = true;
	int64_t got = 0, want = 0;
	int i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++) {
			bool over = __builtin_mul_overflow(edge[i], edge[j], &want);

			mul &= num_mul(edge[i], edge[j], &got) == !over && (over || got == want);
			over = __builtin_add_overflow(edge[i], edge[j], &want);
			add &= num_add(edge[i], edge[j], &got) == !over && (over || got == want);
		}
	check(mul, "num_mul tells overflow");
	check(add, "num_add tells overflow");
}

static void test_parse(void)
{
	static const char *const bad[] = {
		"",
		" ",
		"-",
		"+1",
		" 1",
		"1 ",
		"1x",
		"0x",
		"0xg",
		"x1",
		"1.5",
		"18446744073709551616",
		"0x10000000000000000",
		"--1",
	};
	static const char *const bad_double[] = {
		"",    ".",     "-",  "e5", "1e",    "1e+", "inf",
		"nan", "0x1p3", " 1", "1 ", "1e999", "+1",  "1..2",
	};
	uint64_t u = 0;
	int64_t i = 0;
	double x = 0;
	bool none = true;
	size_t k;

	check(num_parse_u64("18446744073709551615", &u) && u == UINT64_MAX, "the largest u64");
	check(num_parse_u64("0xDeadBeef", &u) && u == 0xdeadbeef, "hexadecimal");
	check(num_parse_u64("007", &u) && u == 7, "leading zeros are decimal");
	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++)
		none &= !num_parse_u64(bad[k], &u) && !num_parse_i64(bad[k], &i);
	check(none, "no integer from anything else");
	check(!num_parse_u64("-1", &u), "no negative u64");
	check(num_parse_i64("-9223372036854775808", &i) && i == INT64_MIN, "the smallest i64");
	check(num_parse_i64("9223372036854775807", &i) && i == INT64_MAX, "the largest i64");
	check(!num_parse_i64("9223372036854775808", &i) &&
	              !num_parse_i64("-9223372036854775809", &i),
	      "no i64 beyond");
	check(num_parse_double("-1.5e-3", &x) && x == -1.5e-3, "a double");
	check(num_parse_double(".5", &x) && x == 0.5 && num_parse_double("5.", &x) && x == 5,
	      "a bare point");
	for (none = true, k = 0; k < sizeof(bad_double) / sizeof(*bad_double); k++)
		none &= !num_parse_double(bad_double[k], &x);
	check(none, "no double from anything else");
}

int main(void)
{
	rng = rng_make(1, "unit/num");
	test_functions();
	test_exact();
	test_quantile();
	test_round();
	test_overflow();
	test_parse();
	return check_done();
}

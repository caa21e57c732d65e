/*
 * num.c - the arithmetic that must give the same bits on every machine.
 *
 * Reductions and polynomials of ln and exp are those of fdlibm (Sun
 * Microsystems 1993, e_log.c and e_exp.c, freely distributable), with the order
 * of operations written out. Compile with -ffp-contract=off.
 */
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"

/* ln 2 in two pieces: k * LN2_HI is exact for |k| < 2^20. */
#define LN2_HI 6.93147180369123816490e-01
#define LN2_LO 1.90821492927058770002e-10
#define LN2    0.69314718055994530942
#define LOG2_E 1.44269504088896340736

/* x = (1 + f) * 2^k with 1 + f in [sqrt(1/2), sqrt(2)); returns f, exact. */
static double split(double x, int *k)
{
	double m = frexp(x, k);

	if (m < 0.70710678118654752440) {
		m *= 2;
		--*k;
	}
	return m - 1;
}

/* ln(1 + f) = f - ln1p_rest(f), for a result of split. */
static double ln1p_rest(double f)
{
	double half_square = 0.5 * f * f;
	double s = f / (2 + f);
	double z = s * s;
	double w = z * z;
	double even = w * (3.999999999940941908e-01 +
	                   w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
	double odd = z * (6.666666666666735130e-01 +
	                  w * (2.857142874366239149e-01 +
	                       w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));

	return half_square - s * (half_square + (even + odd));
}

double num_ln(double x)
{
	double f, k;
	int e;

	if (!(x > 0) || !isfinite(x))
		bug("logarithm of %g", x);
	f = split(x, &e);
	k = e;
	return k * LN2_HI - ((ln1p_rest(f) - k * LN2_LO) - f);
}

double num_log2(double x)
{
	double f;
	int e;

	if (!(x > 0) || !isfinite(x))
		bug("logarithm of %g", x);
	f = split(x, &e);
	return (f - ln1p_rest(f)) * LOG2_E + e;
}

/* exp(hi - lo) * 2^k, |hi - lo| <= 0.35. */
static double exp_reduced(double hi, double lo, int k)
{
	double r = hi - lo;
	double t = r * r;
	double c =
		r -
		t * (1.66666666666666019037e-01 +
	             t * (-2.77777777770155933842e-03 +
	                  t * (6.61375632143793436117e-05 + t * (-1.65339022054652515390e-06 +
	                                                         t * 4.13813679705723846039e-08))));

	return ldexp(1 - ((lo - r * c / (2 - c)) - hi), k);
}

double num_exp2(double x)
{
	double k = floor(x + 0.5);

	if (!(x > -1000 && x < 1000))
		bug("exp2 of %g", x);
	return exp_reduced((x - k) * LN2, 0, (int)k);
}

double num_exp(double x)
{
	double k = floor(x * LOG2_E + 0.5);

	if (!(x > -745 && x < 709))
		bug("exp of %g", x);
	return exp_reduced(x - k * LN2_HI, k * LN2_LO, (int)k);
}

double num_quantile(double p)
{
	/* Peter J. Acklam, "An algorithm for computing the inverse normal
	 * cumulative distribution function", 2000. */
	static const double a[] = {
		-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
		1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00,
	};
	static const double b[] = {
		-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
		6.680131188771972e+01,  -1.328068155288572e+01,
	};
	static const double c[] = {
		-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
		-2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00,
	};
	static const double d[] = {
		7.784695709041462e-03,
		3.224671290700398e-01,
		2.445134137142996e+00,
		3.754408661907416e+00,
	};
	const double tail = 0.02425; /* where the central fit ends */
	double q, r, x;

	if (!(p > 0 && p < 1))
		bug("quantile of %g", p);
	if (p >= tail && p <= 1 - tail) {
		q = p - 0.5;
		r = q * q;
		return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
		       (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
	}
	q = sqrt(-2 * num_ln(p < 0.5 ? p : 1 - p));
	x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
	    ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
	return p < 0.5 ? x : -x;
}

double num_round(double x, int n)
{
	char text[40];

	if (!isfinite(x))
		bug("number is not finite");
	if (n < 1 || n > 17)
		bug("rounding to %d digits", n);
	snprintf(text, sizeof(text), "%.*g", n, x);
	return strtod(text, NULL) + 0.0; /* -0 + 0 is +0 */
}

double num_time(double x)
{
	return num_round(x, 6);
}

double num_value(double x)
{
	return num_round(x, 9);
}

bool num_add(int64_t a, int64_t b, int64_t *out)
{
	if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
		return false;
	*out = a + b;
	return true;
}

bool num_mul(int64_t a, int64_t b, int64_t *out)
{
	/* The one quotient that overflows itself. */
	if ((a == INT64_MIN && b == -1) || (b == INT64_MIN && a == -1))
		return false;
	if (a > 0 && (b > INT64_MAX / a || b < INT64_MIN / a))
		return false;
	if (a < -1 && (b < INT64_MAX / a || b > INT64_MIN / a))
		return false;
	*out = a * b;
	return true;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

bool num_parse_u64(const char *s, uint64_t *out)
{
	uint64_t x = 0, base = 10;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
		base = 16;
		s += 2;
	}
	if (!*s)
		return false;
	for (; *s; s++) {
		uint64_t d = (uint64_t)digit(*s);

		if (d >= base || x > (UINT64_MAX - d) / base)
			return false;
		x = x * base + d;
	}
	*out = x;
	return true;
}

bool num_parse_i64(const char *s, int64_t *out)
{
	bool minus = *s == '-';
	uint64_t x;

	if (!num_parse_u64(s + minus, &x))
		return false;
	if (!minus && x <= INT64_MAX)
		*out = (int64_t)x;
	else if (minus && x <= INT64_MAX)
		*out = -(int64_t)x;
	else if (minus && x == (uint64_t)INT64_MAX + 1)
		*out = INT64_MIN;
	else
		return false;
	return true;
}

/* strtod also takes blanks, "inf", "nan" and hexadecimal: let none through. */
bool num_parse_double(const char *s, double *out)
{
	const char *p = s + (*s == '-');
	int digits = 0;
	double x;

	for (; *p >= '0' && *p <= '9'; p++)
		digits++;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++)
			digits++;
	if (!digits)
		return false;
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p == '-' || *p == '+')
			p++;
		if (!(*p >= '0' && *p <= '9'))
			return false;
		while (*p >= '0' && *p <= '9')
			p++;
	}
	if (*p)
		return false;
	x = strtod(s, NULL);
	if (!isfinite(x))
		return false;
	*out = x;
	return true;
}

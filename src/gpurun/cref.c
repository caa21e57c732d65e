#include <math.h>
#include <string.h>

#include "gpurun/cref.h"

/* A binary float of so many exponent and mantissa bits. `ieee`: the largest
 * exponent means infinity and NaN; else only the all-ones pattern is NaN. */
static double decode(uint32_t bits, int exponent_bits, int mantissa_bits, int ieee)
{
	uint32_t top = (1u << exponent_bits) - 1;
	uint32_t e = bits >> mantissa_bits & top;
	uint32_t m = bits & ((1u << mantissa_bits) - 1);
	int bias = (int)(top >> 1);
	double x;

	if (ieee && e == top)
		x = m ? NAN : INFINITY;
	else if (!ieee && e == top && m == (1u << mantissa_bits) - 1)
		x = NAN;
	else if (e == 0)
		x = ldexp((double)m, 1 - bias - mantissa_bits);
	else
		x = ldexp((double)(m | 1u << mantissa_bits), (int)e - bias - mantissa_bits);
	return bits >> (exponent_bits + mantissa_bits) & 1 ? -x : x;
}

double cref_load(const void *p, enum cref_type type, int64_t i)
{
	const unsigned char *b = p;
	uint16_t half;
	int32_t word;
	float f;

	switch (type) {
	case CREF_F32:
		memcpy(&f, b + 4 * i, sizeof f);
		return f;
	case CREF_F16:
	case CREF_BF16:
		memcpy(&half, b + 2 * i, sizeof half);
		return type == CREF_F16 ? decode(half, 5, 10, 1) : decode(half, 8, 7, 1);
	case CREF_E4M3:
		return decode(b[i], 4, 3, 0);
	case CREF_I8:
		return (int8_t)b[i];
	case CREF_U8:
		return b[i];
	case CREF_I32:
		memcpy(&word, b + 4 * i, sizeof word);
		return word;
	}
	return NAN;
}

double cref_round(double x, enum cref_type type)
{
	int mantissa = type == CREF_F32 ? 23 : type == CREF_F16 ? 10 : type == CREF_BF16 ? 7 : 3;
	int least = type == CREF_F16 ? -14 : type == CREF_E4M3 ? -6 : -126;
	double largest = type == CREF_F32    ? 0x1.fffffep127
	                 : type == CREF_F16  ? 65504
	                 : type == CREF_BF16 ? 0x1.fep127
	                                     : 448;
	int e;
	double y;

	if (x == 0)
		return x;
	frexp(x, &e);
	e = (e - 1 < least ? least : e - 1) - mantissa;
	/* The default mode rounds to nearest even. */
	y = ldexp(nearbyint(ldexp(x, -e)), e);
	if (fabs(y) > largest)
		y = copysign(type == CREF_E4M3 ? largest : INFINITY, y);
	return y;
}

float cref_normal(uint64_t seed, int tensor, uint64_t index)
{
	uint64_t h = (seed ^ (uint64_t)tensor << 56 ^ index) + UINT64_C(0x9E3779B97F4A7C15);
	int sum = 0;
	int i;

	h = (h ^ h >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	h = (h ^ h >> 27) * UINT64_C(0x94D049BB133111EB);
	h ^= h >> 31;
	for (i = 0; i < 4; i++)
		sum += (int)(h >> 16 * i & 0xFFFF);
	return (float)(sum - 131070) * 2.6428997e-5f;
}

/* rng.c - random draws that are a function of (seed, purpose, counter). */
#include "base/rng.h"

#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"

#define GOLDEN_GAMMA 0x9e3779b97f4a7c15u

uint64_t rng_mix(uint64_t x)
{
	x += GOLDEN_GAMMA;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t rng_mix2(uint64_t a, uint64_t b)
{
	return rng_mix(rng_mix(a) ^ b);
}

struct rng rng_make(uint64_t seed, const char *purpose)
{
	return (struct rng){ .key = rng_mix2(seed, hash_str(purpose)) };
}

/* With the key as its state this is splitmix64 itself, entered at `counter`. */
uint64_t rng_u64(struct rng *r)
{
	return rng_mix(r->key + GOLDEN_GAMMA * r->counter++);
}

double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	uint64_t skip, x;

	if (!n)
		bug("rng_below(0)");
	/* The lowest 2^64 mod n values would come once too often: skip them. */
	skip = (0 - n) % n;
	do
		x = rng_u64(r);
	while (x < skip);
	return x % n;
}

double rng_normal(struct rng *r)
{
	/* The middle of one of 2^52 equal cells: never 0 nor 1, and exact. */
	return num_quantile(((double)(rng_u64(r) >> 12) + 0.5) * 0x1p-52);
}

int rng_weighted(struct rng *r, const double *w, int n)
{
	double sum = 0, left;
	int i, last = -1;

	for (i = 0; i < n; i++) {
		if (!(w[i] >= 0))
			bug("weight %d is negative", i);
		sum += w[i];
	}
	if (!(sum > 0))
		bug("weights sum to nothing");
	left = rng_unit(r) * sum;
	for (i = 0; i < n; i++) {
		if (w[i] <= 0)
			continue;
		last = i;
		if (left < w[i])
			break;
		left -= w[i];
	}
	return last; /* rounding may have walked off the end */
}

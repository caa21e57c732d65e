/*
 * rng.h - random draws that are a function of (seed, purpose, counter).
 *
 * Nothing is sequential across rows, so a row draws the same in any shard.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t key;     /* mix of seed and purpose */
	uint64_t counter; /* draws so far */
};

/* splitmix64's finaliser (Steele, Lea, Flood 2014), of x + golden gamma. */
uint64_t rng_mix(uint64_t x);
/* One hash of two words; not symmetric. */
uint64_t rng_mix2(uint64_t a, uint64_t b);
/* A generator for one purpose of one seed; purpose is any short name. */
struct rng rng_make(uint64_t seed, const char *purpose);
uint64_t rng_u64(struct rng *r);
/* [0, 1), 53 bits. */
double rng_unit(struct rng *r);
/* 0 … n-1 without bias; n >= 1. */
uint64_t rng_below(struct rng *r, uint64_t n);
/* Standard normal by the inverse distribution function (num_quantile). */
double rng_normal(struct rng *r);
/* Index drawn with probability proportional to w[i] >= 0; the sum must be > 0. */
int rng_weighted(struct rng *r, const double *w, int n);

#endif

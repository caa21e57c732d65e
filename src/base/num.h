/*
 * num.h - the arithmetic that must give the same bits on every machine.
 *
 * Only + - * / sqrt, frexp, ldexp, floor are used; libm's log2, exp2 and pow
 * differ between CPUs in the last bit, so ours have a fixed order of
 * operations. Errors are below 4 ulp, tested against libm.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

double num_log2(double x); /* x > 0, finite */
double num_exp2(double x); /* |x| < 1000 */
double num_ln(double x);
double num_exp(double x);
/* Inverse of the standard normal distribution function, 0 < p < 1 (Acklam's
 * rational approximation, relative error 1.15e-9). */
double num_quantile(double p);

/* x rounded to n significant decimal digits (1 … 17), -0 turned into 0; a
 * number printed from it with cJSON reads back the same. Dies (bug) when x is
 * not finite. */
double num_round(double x, int n);
/* The two roundings of every published number: times 6 digits, the rest 9. */
double num_time(double x);
double num_value(double x);

/* a*b+c style overflow checks for sizes; false on overflow. */
bool num_mul(int64_t a, int64_t b, int64_t *out);
bool num_add(int64_t a, int64_t b, int64_t *out);

/* Strict decimal or 0x parse of the whole string; false if it is not one. */
bool num_parse_u64(const char *s, uint64_t *out);
bool num_parse_i64(const char *s, int64_t *out);
bool num_parse_double(const char *s, double *out);

#endif

/*
 * cref.h - the C side of `bench-worker --certify`: element types and the
 * generator of the ops' definitions, written again and independently of the CUDA
 * side. The problems' references in plain C are in cref_<problem>.c: they
 * work on host arrays of double, loop as the formula stands, and are meant
 * for small shapes.
 */
#ifndef GPURUN_CREF_H
#define GPURUN_CREF_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cref_type { CREF_F32, CREF_F16, CREF_BF16, CREF_E4M3, CREF_I8, CREF_U8, CREF_I32 };

/* Element i of an array of the type; NaN and infinities as such. */
double cref_load(const void *p, enum cref_type type, int64_t i);
/* x rounded to the type (not the integer types), to nearest even, e4m3
 * saturating at 448; returned as the double that it stands for. x finite. */
double cref_round(double x, enum cref_type type);
/* n of the ops' definitions section 0: mean 0, variance 1. */
float cref_normal(uint64_t seed, int tensor, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif

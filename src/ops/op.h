/*
 * op.h - what an operator is: axes, dtypes, shapes, mathematics, compulsory work.
 *
 * One file in ops/ per problem defines `const struct op ops_<file>[]`, ended
 * by a row whose name is NULL; the build collects the files, so a new problem
 * needs no registration.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

enum { OP_MAX_AXES = 6 };

/* Element types of a row. The order is that of the names in op.c. */
enum dtype { DT_FP32, DT_FP16, DT_BF16, DT_FP8, DT_INT8, DT_INT4, DT_FP4, DT_COUNT };

enum impl { IMPL_CUDA, IMPL_TRITON, IMPL_COUNT };

struct op {
	const char *name;     /* the launcher's name, "flash_decode" */
	const char *problem;  /* the unit of the hold-out, "decode_attention" */
	unsigned impls;       /* bit 1 << IMPL_CUDA, 1 << IMPL_TRITON */
	enum dtype dtypes[4]; /* the first n_dtypes */
	int n_dtypes;
	const char *axes[OP_MAX_AXES]; /* in the launcher's order, "B", "H" */
	int n_axes;
	const int64_t (*shapes)[OP_MAX_AXES]; /* n_shapes rows, axes in order */
	int n_shapes;
	const char *statement; /* the mathematics, layouts and contract */
	/* The launcher's C signature, or Triton's `launch`. String of static
	 * lifetime. It may depend on the dtype. */
	const char *(*signature)(enum impl impl, enum dtype dtype);
	/* Error test T(a, n): element and norm bound in units of the output
	 * type's rounding (README, "The row"); both 0 means bitwise. Where they
	 * depend on the shape, `tolerance` says; else it is NULL. */
	double tol_element, tol_norm;
	void (*tolerance)(const int64_t *v, double *element, double *norm);
	/* Compulsory bytes: each input byte that must be read, once, and each
	 * output byte, once. v[n_axes] are the axis values. */
	int64_t (*bytes)(const int64_t *v, enum dtype dtype);
	/* Of these, the bytes written. */
	int64_t (*bytes_out)(const int64_t *v, enum dtype dtype);
	/* Operations: multiply and add count 2, a transcendental 1. */
	int64_t (*flops)(const int64_t *v, enum dtype dtype);
	/* Which rate those operations are limited by at the speed of light. */
	enum op_pipe { PIPE_FP32, PIPE_TENSOR16, PIPE_TENSOR8I, PIPE_TENSOR8F } pipe;
	/* Bytes of all tensors that must lie in device memory at once. */
	int64_t (*footprint)(const int64_t *v, enum dtype dtype);
	/* NULL if the axes are legal, else what is wrong, lower case, such as
	 * "H is no multiple of HKV". Never called with a value < 1. */
	const char *(*illegal)(const int64_t *v, enum dtype dtype);
};

const char *dtype_name(enum dtype dtype);
/* -1 for an unknown name. */
int dtype_from_name(const char *name);
/* Bytes per element; 1 for int4 and fp4, whose packing is the op's matter. */
int dtype_bytes(enum dtype dtype);
/* Unit round-off of the OUTPUT type of this dtype's ops (fp16 for fp8, int8,
 * int4, fp4): 2^-11, bf16 2^-8, fp32 2^-24. Half an ulp of 1. */
double dtype_round_off(enum dtype dtype);
const char *impl_name(enum impl impl);
int impl_from_name(const char *name);

/* All ops, ordered by name; *n receives the count. Static lifetime. */
const struct op *const *op_list(int *n);
/* NULL for an unknown name. */
const struct op *op_find(const char *name);
/* Index of the axis, or -1. */
int op_axis(const struct op *op, const char *name);
bool op_has_dtype(const struct op *op, enum dtype dtype);
/* The two bounds of the error test at this shape. */
void op_tolerance(const struct op *op, const int64_t *v, double *element, double *norm);
/* NULL if legal (every axis >= 1, the op's own rules, a tensor table limit),
 * else what is wrong. */
const char *op_illegal(const struct op *op, const int64_t *v, enum dtype dtype);

#endif

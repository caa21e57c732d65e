/*
 * op.c - the registry of ops and the names of dtypes and impls.
 */
#include "ops/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"

/* Written by the build: OPS_FILE(<problem>) for each file here. */
#define OPS_FILE(file) extern const struct op ops_##file[];
#include "ops.inc"
#undef OPS_FILE

static const struct op *const files[] = {
#define OPS_FILE(file) ops_##file,
#include "ops.inc"
#undef OPS_FILE
};

static const struct {
	const char *name;
	int bytes;
} dtypes[DT_COUNT] = {
	[DT_FP32] = { "fp32", 4 }, [DT_FP16] = { "fp16", 2 }, [DT_BF16] = { "bf16", 2 },
	[DT_FP8] = { "fp8", 1 },   [DT_INT8] = { "int8", 1 }, [DT_INT4] = { "int4", 1 },
	[DT_FP4] = { "fp4", 1 },
};

static const char *const impls[IMPL_COUNT] = { "cuda", "triton" };

const char *dtype_name(enum dtype dtype)
{
	return dtypes[dtype].name;
}

int dtype_from_name(const char *name)
{
	for (int i = 0; i < DT_COUNT; i++) {
		if (strcmp(dtypes[i].name, name) == 0)
			return i;
	}
	return -1;
}

int dtype_bytes(enum dtype dtype)
{
	return dtypes[dtype].bytes;
}

double dtype_round_off(enum dtype dtype)
{
	switch (dtype) {
	case DT_FP32:
		return 0x1p-24;
	case DT_BF16:
		return 0x1p-8;
	default:
		return 0x1p-11;
	}
}

const char *impl_name(enum impl impl)
{
	return impls[impl];
}

int impl_from_name(const char *name)
{
	for (int i = 0; i < IMPL_COUNT; i++) {
		if (strcmp(impls[i], name) == 0)
			return i;
	}
	return -1;
}

static int by_name(const void *a, const void *b)
{
	const struct op *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

const struct op *const *op_list(int *n)
{
	enum { MAX_OPS = 128 };
	static const struct op *list[MAX_OPS];
	static int count;

	if (!count) {
		for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
			for (const struct op *op = files[i]; op->name; op++) {
				if (count == MAX_OPS)
					bug("more than %d ops", MAX_OPS);
				list[count++] = op;
			}
		}
		qsort(list, (size_t)count, sizeof *list, by_name);
	}
	*n = count;
	return list;
}

const struct op *op_find(const char *name)
{
	int n;
	const struct op *const *list = op_list(&n);

	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->name, name) == 0)
			return list[i];
	}
	return NULL;
}

int op_axis(const struct op *op, const char *name)
{
	for (int i = 0; i < op->n_axes; i++) {
		if (strcmp(op->axes[i], name) == 0)
			return i;
	}
	return -1;
}

bool op_has_dtype(const struct op *op, enum dtype dtype)
{
	for (int i = 0; i < op->n_dtypes; i++) {
		if (op->dtypes[i] == dtype)
			return true;
	}
	return false;
}

void op_tolerance(const struct op *op, const int64_t *v, double *element, double *norm)
{
	*element = op->tol_element;
	*norm = op->tol_norm;
	if (op->tolerance)
		op->tolerance(v, element, norm);
}

const char *op_illegal(const struct op *op, const int64_t *v, enum dtype dtype)
{
	const int64_t axis_limit = (int64_t)1 << 31, bytes_limit = (int64_t)1 << 40;
	const char *what;

	for (int i = 0; i < op->n_axes; i++) {
		if (v[i] < 1)
			return "an axis is less than 1";
		if (v[i] >= axis_limit)
			return "an axis does not fit an int";
	}
	/* An op multiplies its axes freely once the product is known to fit. */
	double product = 1;

	for (int i = 0; i < op->n_axes; i++)
		product *= (double)v[i];
	if (product > 1e18)
		return "the shape is too large";
	what = op->illegal(v, dtype);
	if (!what && op->footprint(v, dtype) > bytes_limit)
		return "the tensors are too large";
	return what;
}

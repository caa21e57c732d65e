/*
 * kernel.h - the kernel files: embedded, parsed by their markers, rendered.
 *
 * A file kernels/<op>/<variant>.cu or .py is compiled into the programs by the
 * build. Its markers (README, "Adding to it") say which parameters,
 * needs, faults and costs it has; nothing else in the project does. Everything
 * returned has static lifetime. A file with a bad marker is a bug (exit 4),
 * named with its line.
 */
#ifndef KERNELS_KERNEL_H
#define KERNELS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "kernels/expr.h"

enum { KERNEL_MAX_PARAMS = 8, KERNEL_MAX_VALUES = 8, KERNEL_MAX_LAUNCHES = 6 };

struct kernel_param {
	const char *name;
	int n; /* legal values, as listed */
	int64_t value[KERNEL_MAX_VALUES];
	int64_t preset; /* the file's own */
	int slot;       /* in the kernel's symbol table */
};

struct kernel_fault {
	const char *name;
	bool defined;      /* a fault marker has been seen */
	bool compile;      /* else wrong result */
	struct expr when;  /* absent: always */
	const char *says;  /* compile: the first error's words */
	int says_offset;   /* its line, from the replaced line */
	const char *shows; /* wrong: the reason it fails for, "mismatch" */
};

/* What one launch costs, each an expression (n == 0: default). */
enum kernel_cost {
	COST_GRID,
	COST_BLOCK,
	COST_SMEM,
	COST_REGS,
	COST_READ,
	COST_ONCE,
	COST_WRITE,
	COST_INFLIGHT,
	COST_OPS,
	COST_SFU,
	COST_TC16,
	COST_TC8I,
	COST_TC8F,
	COST_EFF,
	COST_CHAIN,
	COST_TILES,
	COST_COUNT
};

struct kernel_launch {
	struct expr cost[COST_COUNT];
};

struct kernel {
	const char *op, *variant;
	bool triton;              /* else CUDA C++ */
	const char *idea;         /* a noun phrase for messages */
	const char *dtypes;       /* " fp16 bf16 ", or NULL: all of the op */
	const char *const *needs; /* feature names, ended by NULL */
	struct symbols symbols;   /* names that expressions use */
	int n_params;
	struct kernel_param params[KERNEL_MAX_PARAMS];
	int n_faults;
	struct kernel_fault *faults;
	int n_legal;
	struct expr *legal;
	int n_launches;
	struct kernel_launch launches[KERNEL_MAX_LAUNCHES];
	struct kernel_line *lines; /* for rendering */
	int n_lines;
	const char *path; /* "rmsnorm/naive.cu", for messages */
};

/* The variants of (op, impl), `naive` first, the rest by name; *n their
 * count. Parsed at the first call. */
const struct kernel *const *kernel_list(const char *op, bool triton, int *n);
const struct kernel *kernel_find(const char *op, bool triton, const char *variant);
bool kernel_has_dtype(const struct kernel *k, const char *dtype);
int kernel_param_index(const struct kernel *k, const char *name); /* -1 */
const struct kernel_fault *kernel_fault_find(const struct kernel *k, const char *name);
/* Every parameter name of every file, sorted, for the card's features. */
const char *const *kernel_param_names(int *n);

/* values[slot] of a name the kernel's expressions use; others are ignored. */
void kernel_bind(const struct kernel *k, int64_t *values, const char *name, int64_t value);
/* Sets the parameters' slots from params[n_params]. */
void kernel_bind_params(const struct kernel *k, int64_t *values, const int64_t *params);

/* The source for these parameters, dtype and fault (NULL: none), appended to
 * out; *line is the 1-based line of the fault's first replaced line, 0 without
 * one. */
void kernel_render(const struct kernel *k, const char *dtype, const int64_t *params,
                   const struct kernel_fault *fault, struct buf *out, int *line);
/* The file name a compiler is shown: "candidate.cu" or "candidate.py". */
const char *kernel_file_name(const struct kernel *k);

#endif

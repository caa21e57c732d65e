/* features.c - see features.h. */
#include "episode/features.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "kernels/kernel.h"
#include "ops/op.h"

enum { MAX_NAMES = 128 };

static void put(struct buf *out, int indent, const char *key, const char *value)
{
	buf_printf(out, "%*s%s:%s%s\n", indent, "", key, *value ? " " : "", value);
}

/* YAML 1.1 takes a bare N for "no". */
static void put_name(struct buf *out, int indent, const char *name)
{
	bool letter = name[0] && !name[1] && strchr("nNyY", name[0]);

	buf_printf(out, letter ? "%*s- name: \"%s\"\n" : "%*s- name: %s\n", indent, "", name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Every axis of every op, sorted, once. */
static int axis_names(const char **names)
{
	int n_ops, n = 0, unique = 0;
	const struct op *const *ops = op_list(&n_ops);

	for (int i = 0; i < n_ops; i++)
		for (int a = 0; a < ops[i]->n_axes && n < MAX_NAMES; a++)
			names[n++] = ops[i]->axes[a];
	qsort(names, (size_t)n, sizeof names[0], by_name);
	for (int i = 0; i < n; i++)
		if (!i || strcmp(names[i], names[unique - 1]))
			names[unique++] = names[i];
	return unique;
}

/* An open map as a struct of all its possible keys; what a row lacks is null. */
static void put_names(struct buf *out, int indent, const char *const *names, int n, bool list)
{
	put(out, indent, "struct", "");
	for (int i = 0; i < n; i++) {
		put_name(out, indent, names[i]);
		put(out, indent + 2, list ? "sequence" : "dtype", "int64");
	}
}

static void put_fields(struct buf *out, int indent, const struct field *f, int n);

/* Envelope, then each key of any kind, once. */
static void put_messages(struct buf *out, int indent)
{
	struct field all[MAX_NAMES];
	int n, total = 0;
	const struct field *f = schema_part(FT_MESSAGES, &n);

	for (int i = 0; i < n; i++)
		all[total++] = f[i];
	for (int k = 0; k < KIND_COUNT; k++) {
		f = schema_kind((enum kind)k, &n);
		for (int i = 0; i < n; i++) {
			int j = 0;

			while (j < total && strcmp(all[j].key, f[i].key))
				j++;
			if (j == total && total < MAX_NAMES)
				all[total++] = f[i];
		}
	}
	put_fields(out, indent, all, total);
}

/* What stands under "- name: KEY". */
static void put_type(struct buf *out, int indent, const struct field *f)
{
	const char *axes[MAX_NAMES];
	const char *const *params;
	const struct field *part;
	int n;

	switch (f->type) {
	case FT_STR:
	case FT_NSTR:
	case FT_TEXT:
	case FT_NTEXT:
	case FT_SOURCE:
	case FT_KINDNAME:
		put(out, indent, "dtype", "string");
		break;
	case FT_INT:
	case FT_NINT:
		put(out, indent, "dtype", "int64");
		break;
	case FT_NUM:
	case FT_NNUM:
	case FT_TIME:
	case FT_NTIME:
		put(out, indent, "dtype", "float64");
		break;
	case FT_NBOOL:
		put(out, indent, "dtype", "bool");
		break;
	case FT_MAP:
		if (!strcmp(f->key, "shape")) {
			n = axis_names(axes);
			put_names(out, indent, axes, n, false);
		} else {
			params = kernel_param_names(&n);
			put_names(out, indent, params, n, false);
		}
		break;
	case FT_REGION:
		params = kernel_param_names(&n);
		put_names(out, indent, params, n, true);
		break;
	case FT_MESSAGES:
		put(out, indent, "list", "");
		put_messages(out, indent);
		break;
	case FT_ASSIGNMENTS:
	case FT_ENTRIES:
	case FT_AGENTS:
		put(out, indent, "list", "");
		part = schema_part(f->type, &n);
		put_fields(out, indent, part, n);
		break;
	case FT_BUDGET:
	case FT_COMPILE:
	case FT_VERIFY:
	case FT_BENCH:
	case FT_TASK:
	case FT_TOLERANCE:
	case FT_GPU_FACTS:
		put(out, indent, "struct", "");
		part = schema_part(f->type, &n);
		put_fields(out, indent, part, n);
		break;
	case FT_EPISODE:
	case FT_HOLDOUT:
	case FT_COUNT:
		bug("field '%s' has the type of a row", f->key);
	}
}

static void put_fields(struct buf *out, int indent, const struct field *f, int n)
{
	for (int i = 0; i < n; i++) {
		put_name(out, indent, f[i].key);
		put_type(out, indent + 2, &f[i]);
	}
}

void features_yaml(enum field_type row, int indent, struct buf *out)
{
	int n;
	const struct field *f = schema_part(row, &n);

	put_fields(out, indent, f, n);
}

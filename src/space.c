/*
 * space - lists a task's legal candidates as candidate rows; shows kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rng.h"
#include "episode/read.h"
#include "episode/write.h"
#include "model/model.h"
#include "row/row.h"
#include "swarm/env.h"

static int64_t sample;
static uint64_t seed = 1;
static bool faults, list;
static const char *variants, *render, *impl = "cuda", *dtype, *params, *fault;

static const char *check_impl(const char *s)
{
	return impl_from_name(s) < 0 ? "unknown impl" : NULL;
}

static const char *check_dtype(const char *s)
{
	return dtype_from_name(s) < 0 ? "unknown dtype" : NULL;
}

static const struct opt options[] = {
	{ 0, "sample", OPT_INT, &sample, "N",
	  "a seeded sample of N per task, in random order (0: all, in order)", 0, 1000000, NULL },
	{ 's', "seed", OPT_SEED, &seed, "S", "of the sample", 0, 0, NULL },
	{ 0, "variants", OPT_LIST, &variants, "LIST", "only these variants", 0, 0, NULL },
	{ 0, "faults", OPT_FLAG, &faults, NULL,
	  "with each configuration also every fault that applies to it", 0, 0, NULL },
	{ 0, "list-kernels", OPT_FLAG, &list, NULL,
	  "read nothing; describe every kernel file, one object a line", 0, 0, NULL },
	{ 0, "render", OPT_STR, &render, "OP/VARIANT", "read nothing; print that variant's source",
	  0, 0, NULL },
	{ 0, "impl", OPT_STR, &impl, "IMPL", "for --render: cuda or triton", 0, 0, check_impl },
	{ 0, "dtype", OPT_STR, &dtype, "DTYPE", "for --render (default: the op's first)", 0, 0,
	  check_dtype },
	{ 0, "params", OPT_STR, &params, "K=V,...", "for --render (default: the file's own)", 0, 0,
	  NULL },
	{ 0, "fault", OPT_STR, &fault, "NAME", "for --render", 0, 0, NULL },
	{ 0 },
};

static bool wanted(const char *variant)
{
	size_t n = strlen(variant);

	if (!variants)
		return true;
	for (const char *p = variants; *p; p += strcspn(p, ","), p += *p == ',') {
		if (strcspn(p, ",") == n && memcmp(p, variant, n) == 0)
			return true;
	}
	return false;
}

static void emit(struct row *r, const struct task *t, const struct kernel *k, const int64_t *values,
                 const struct kernel_fault *f)
{
	json *root = json_new_object(), *map;

	problem_write(root, t);
	json_add_str(root, "variant", k->variant);
	map = json_add_object(root, "params");
	for (int i = 0; i < k->n_params; i++)
		json_add_int(map, k->params[i].name, values[i]);
	json_add_str(root, "fault", f ? f->name : NULL);
	json_add_null(root, "source");
	row_emit_json(r, root);
	json_free(root);
}

/* Calls back for each legal configuration and, with --faults, each fault of
 * it; stops when the call returns false. */
struct walk {
	struct row *r;
	const struct task *task;
	int64_t seen;
	/* Reservoir of the sample: configurations and faults. */
	struct pick {
		const struct kernel *kernel;
		const struct kernel_fault *fault;
		int64_t values[KERNEL_MAX_PARAMS];
	} * picks;
	struct rng rng;
};

static void found(struct walk *w, const struct kernel *k, const int64_t *values,
                  const struct kernel_fault *f)
{
	int64_t at = w->seen++;

	if (!sample) {
		emit(w->r, w->task, k, values, f);
		return;
	}
	if (at >= sample)
		at = (int64_t)rng_below(&w->rng, (uint64_t)w->seen);
	if (at < sample) {
		w->picks[at].kernel = k;
		w->picks[at].fault = f;
		memcpy(w->picks[at].values, values, sizeof w->picks[at].values);
	}
}

static void walk_variant(struct walk *w, const struct problem *p, const struct kernel *k)
{
	struct binding b;
	int64_t values[KERNEL_MAX_PARAMS] = { 0 };
	struct resources res;
	struct estimate e;
	bool more = true;

	config_bind(p, k, &b);
	for (config_first(k, values); more; more = config_next(k, values)) {
		if (!model_try(p, &b, values, &res, &e))
			continue;
		found(w, k, values, NULL);
		for (int i = 0; faults && i < k->n_faults; i++) {
			if (config_fault_applies(&b, values, &k->faults[i]))
				found(w, k, values, &k->faults[i]);
		}
	}
}

static void space_row(struct row *r)
{
	static struct walk w;
	struct task t;
	struct problem p;
	int n;
	const struct kernel *const *kernels;

	task_read(r, &t);
	p = env_problem(&t);
	kernels = kernel_list(p.op->name, p.impl == IMPL_TRITON, &n);
	w.r = r;
	w.task = &t;
	w.seen = 0;
	w.rng = rng_make(rng_mix2(seed, t.seed), "space");
	if (sample)
		w.picks = xrealloc(w.picks, (unsigned long)sample * sizeof *w.picks);
	for (int i = 0; i < n; i++) {
		if (wanted(kernels[i]->variant) &&
		    kernel_has_dtype(kernels[i], dtype_name(p.dtype)) &&
		    !config_unmet(p.gpu, kernels[i]))
			walk_variant(&w, &p, kernels[i]);
	}
	n = (int)(w.seen < sample ? w.seen : sample);
	for (int i = n - 1; i > 0; i--) {
		int j = (int)rng_below(&w.rng, (uint64_t)i + 1);
		struct pick x = w.picks[i];

		w.picks[i] = w.picks[j];
		w.picks[j] = x;
	}
	for (int i = 0; i < n; i++)
		emit(r, &t, w.picks[i].kernel, w.picks[i].values, w.picks[i].fault);
}

/* --- kernels by themselves ------------------------------------------------ */

static json *describe(const struct op *op, const struct kernel *k)
{
	json *j = json_new_object(), *a;
	struct buf source = { 0 };
	int64_t values[KERNEL_MAX_PARAMS];

	config_preset(k, values);
	json_add_str(j, "op", k->op);
	json_add_str(j, "variant", k->variant);
	json_add_str(j, "impl", impl_name(k->triton ? IMPL_TRITON : IMPL_CUDA));
	json_add_str(j, "file", k->path);
	json_add_str(j, "idea", k->idea);
	a = json_add_array(j, "needs");
	for (int i = 0; k->needs[i]; i++)
		json_push(a, json_new_str(k->needs[i]));
	a = json_add_array(j, "dtypes");
	for (int i = 0; i < op->n_dtypes; i++) {
		if (kernel_has_dtype(k, dtype_name(op->dtypes[i])))
			json_push(a, json_new_str(dtype_name(op->dtypes[i])));
	}
	a = json_add_object(j, "params");
	for (int i = 0; i < k->n_params; i++) {
		json *v = json_add_array(a, k->params[i].name);

		for (int n = 0; n < k->params[i].n; n++)
			json_push(v, json_new_int(k->params[i].value[n]));
	}
	a = json_add_object(j, "preset");
	for (int i = 0; i < k->n_params; i++)
		json_add_int(a, k->params[i].name, k->params[i].preset);
	a = json_add_array(j, "faults");
	for (int i = 0; i < k->n_faults; i++) {
		const struct kernel_fault *f = &k->faults[i];
		json *o = json_new_object();
		int line;

		buf_clear(&source);
		kernel_render(k, dtype_name(op->dtypes[0]), values, f, &source, &line);
		json_add_str(o, "name", f->name);
		json_add_str(o, "kind", f->compile ? "compile" : "wrong");
		json_add_str(o, "message", f->compile ? f->says : f->shows);
		json_add_int(o, "line", line + f->says_offset);
		json_push(a, o);
	}
	buf_free(&source);
	return j;
}

static void list_kernels(struct row *r)
{
	int n_ops;
	const struct op *const *ops = op_list(&n_ops);

	for (int o = 0; o < n_ops; o++) {
		for (int triton = 0; triton < IMPL_COUNT; triton++) {
			int n;
			const struct kernel *const *kernels =
				kernel_list(ops[o]->name, triton == IMPL_TRITON, &n);

			for (int i = 0; i < n; i++) {
				source_next(r);
				json_free(r->root);
				r->root = describe(ops[o], kernels[i]);
				row_emit(r);
			}
		}
	}
}

static void set_params(const struct kernel *k, int64_t *values)
{
	char *text, *save = NULL;

	if (!params)
		return;
	text = xstrdup(params);
	for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(p, '=');
		int64_t v;
		int at;

		if (!eq)
			opt_usage("--params: '=' expected in '%s'", p);
		*eq = '\0';
		at = kernel_param_index(k, p);
		if (at < 0)
			opt_usage("--params: unknown parameter '%s'", p);
		if (!num_parse_i64(eq + 1, &v))
			opt_usage("--params: no integer '%s'", eq + 1);
		values[at] = v;
	}
	free(text);
}

static int render_kernel(void)
{
	const char *slash = strchr(render, '/');
	char name[64];
	const struct op *op;
	const struct kernel *k;
	const struct kernel_fault *f = NULL;
	int64_t values[KERNEL_MAX_PARAMS];
	struct buf source = { 0 };
	int line;

	snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - render) : 0, render);
	op = op_find(name);
	if (!slash || !op)
		opt_usage("--render: unknown op in '%s'", render);
	k = kernel_find(op->name, impl_from_name(impl) == IMPL_TRITON, slash + 1);
	if (!k)
		opt_usage("--render: %s has no %s variant '%s'", op->name, impl, slash + 1);
	if (!dtype)
		dtype = dtype_name(op->dtypes[0]);
	if (fault && !(f = kernel_fault_find(k, fault)))
		opt_usage("--render: %s has no fault '%s'", render, fault);
	config_preset(k, values);
	set_params(k, values);
	kernel_render(k, dtype, values, f, &source, &line);
	if (fwrite(source.data, 1, source.len, stdout) != source.len || fclose(stdout) != 0)
		die_errno("cannot write '<stdout>'");
	buf_free(&source);
	return EX_DONE;
}

int main(int argc, char **argv)
{
	static const struct filter filter = {
		.program = {
			.name = "space",
			.summary = "Lists a task's legal candidates: variant and parameters, all or a sample.",
			.input = "task rows",
			.output = "candidate rows, for simulate --candidates and bench --candidates",
			.opts = options,
		},
		.row = space_row,
	};

	/* Both ways of asking about kernels alone read no rows. */
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list-kernels") == 0 ||
		    strncmp(argv[i], "--render", 8) == 0) {
			struct row r;

			opt_parse(&filter.program, argc, argv, false);
			if (render)
				return render_kernel();
			source_open(&r, -1);
			list_kernels(&r);
			return source_close(&r);
		}
	}
	return filter_main(&filter, argc, argv);
}

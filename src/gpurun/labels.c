/* labels.c - the kernel files' claims as jobs, and their rows. */
#include "gpurun/labels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/out.h"
#include "base/rng.h"
#include "episode/schema.h"
#include "gpurun/done.h"
#include "gpurun/host.h"
#include "gpurun/plan.h"
#include "gpurun/tokens.h"

enum { SEEDS = 3, MAX_ARCHS = 8, MAX_LABELS = 4096 };

enum label_kind { LABEL_VERIFIES, LABEL_WRONG, LABEL_COMPILE, LABEL_ARCH };

static const char *const kind_names[] = { "verifies", "wrong", "compile", "arch" };

struct label {
	enum label_kind kind;
	const struct kernel *kernel;
	const struct op *op;
	enum dtype dtype; /* LABEL_VERIFIES */
	const struct kernel_fault *fault;
	char hash[17];
	int n_sets;
	struct plan_set sets[PLAN_SETS];
	int n, left, skipped; /* jobs */
	struct job *jobs;
	struct claim {
		struct label *label;
		enum dtype dtype;
		int set, shape, seed;
		const char *arch;
		bool met; /* the arch meets the needs */
		int line; /* of the fault in the source */
	} * claims;
	bool given_up; /* it hangs or crashes: each further run would cost a worker */
	int refuted;
	int reasons[RUN_REASONS]; /* how often each was given */
	char note[400];           /* the first contradiction */
};

const char *const labels_members[] = { "label", "held", NULL };

static const struct lab *lab;
static struct labels_options options;
static struct row *row;
static struct label *labels;
static int n_labels, proved, refuted, infra;

/* Verified variants get larger problems than faults, which run nine times as
 * often. */
static const struct plan_limit large = { 1.2e9, 1.5e11 }, small = { 1.2e8, 2e10 },
			       any = { 4e9, 2e12 };

/* --- what a label rests on ----------------------------------------------------- */

/* A name counts by itself, not by its slot, which expressions that are no part of
 * a claim (the costs) move; a parameter by its place: what it is called is no part
 * of a claim either. */
static uint64_t mix_expr(uint64_t h, const struct kernel *k, const struct expr *e)
{
	for (int i = 0; i < e->n; i++) {
		int slot = expr_slot(e, i);
		const char *name = slot < 0 ? NULL : k->symbols.name[slot];
		int param = name ? kernel_param_index(k, name) : -1;

		h = rng_mix2(h, e->ops[i].code);
		h = rng_mix2(h, param >= 0 ? (uint64_t)param
		                : name     ? hash_str(name)
		                           : (uint64_t)e->ops[i].value);
	}
	return rng_mix2(h, (uint64_t)e->n);
}

static uint64_t mix_rendering(uint64_t h, const struct label *l, enum dtype dtype)
{
	static struct buf source;
	const struct kernel *k = l->kernel;
	const char *names[KERNEL_MAX_PARAMS];
	int64_t params[KERNEL_MAX_PARAMS];
	int line;

	buf_clear(&source);
	config_preset(k, params);
	for (int i = 0; i < k->n_params; i++)
		names[i] = k->params[i].name;
	kernel_render(k, dtype_name(dtype), params, l->fault, &source, &line);
	return rng_mix2(h, tokens_hash(source.data, source.len, k->triton, names, k->n_params));
}

static void hash_label(struct label *l)
{
	const struct kernel *k = l->kernel;
	uint64_t h = rng_mix2(hash_str(k->path), (uint64_t)l->kind);

	if (l->kind == LABEL_VERIFIES) {
		h = mix_rendering(rng_mix2(h, (uint64_t)l->dtype), l, l->dtype);
	} else {
		for (int i = 0; i < l->op->n_dtypes; i++) {
			if (kernel_has_dtype(k, dtype_name(l->op->dtypes[i])))
				h = mix_rendering(h, l, l->op->dtypes[i]);
		}
	}
	for (int i = 0; i < k->n_params; i++) {
		h = rng_mix2(h, (uint64_t)k->params[i].n);
		for (int v = 0; v < k->params[i].n; v++)
			h = rng_mix2(h, (uint64_t)k->params[i].value[v]);
	}
	for (int i = 0; k->needs[i]; i++)
		h = rng_mix2(h, hash_str(k->needs[i]));
	if (l->kind == LABEL_VERIFIES || l->kind == LABEL_WRONG) {
		for (int i = 0; i < k->n_legal; i++)
			h = mix_expr(h, k, &k->legal[i]);
	}
	if (l->fault) {
		h = mix_expr(rng_mix2(h, hash_str(l->fault->name)), k, &l->fault->when);
		if (l->fault->says)
			h = rng_mix2(h, hash_str(l->fault->says) + (uint64_t)l->fault->says_offset);
	}
	hash_hex(h, l->hash);
}

/* --- rows ---------------------------------------------------------------------- */

static void add_sets(json *j, const struct label *l)
{
	json *sets = json_add_array(j, "sets");

	for (int s = 0; s < l->n_sets; s++) {
		json *set = json_new_object(), *params = json_add_object(set, "params");
		json *shapes = json_add_array(set, "shapes");

		for (int i = 0; i < l->kernel->n_params; i++)
			json_add_int(params, l->kernel->params[i].name, l->sets[s].params[i]);
		for (int i = 0; i < l->sets[s].n_shapes; i++) {
			json *shape = json_new_object();

			for (int a = 0; a < l->op->n_axes; a++)
				json_add_int(shape, l->op->axes[a], l->sets[s].shapes[i][a]);
			json_push(shapes, shape);
		}
		json_push(sets, set);
	}
}

static void add_archs(json *j, const struct label *l)
{
	json *archs = json_add_object(j, "archs");

	for (int i = 0; i < l->n; i++)
		json_add_str(archs, l->claims[i].arch,
		             l->kind == LABEL_COMPILE ? "refused"
		             : l->claims[i].met       ? "compiles"
		                                      : "unsupported");
}

static void print_label(const struct label *l)
{
	json *j = json_new_object(), *p;
	bool runs = l->kind == LABEL_VERIFIES || l->kind == LABEL_WRONG;
	const struct run_hello *device = runs ? lab->device : NULL;

	json_add_str(j, "label", l->hash);
	json_add_str(j, "kind", kind_names[l->kind]);
	json_add_str(j, "op", l->op->name);
	json_add_str(j, "impl", impl_name(l->kernel->triton ? IMPL_TRITON : IMPL_CUDA));
	json_add_str(j, "variant", l->kernel->variant);
	json_add_str(j, "dtype", l->kind == LABEL_VERIFIES ? dtype_name(l->dtype) : NULL);
	json_add_str(j, "fault", l->fault ? l->fault->name : NULL);
	json_add_str(j, "held", l->refuted ? "no" : "yes");
	json_add_int(j, "runs", l->n - l->skipped);
	json_add_int(j, "refuted", l->refuted);
	if (runs) {
		json *reasons = json_add_object(j, "reasons");

		for (int i = 1; i < RUN_REASONS; i++) {
			if (l->reasons[i])
				json_add_int(reasons, answer_reason(i), l->reasons[i]);
		}
		json_add_str(j, "shows", l->fault ? l->fault->shows : NULL);
		json_add_int(j, "seeds", l->kind == LABEL_WRONG ? SEEDS : 1);
		add_sets(j, l);
	} else {
		if (l->kind == LABEL_COMPILE)
			json_add_str(j, "says", l->fault->says);
		add_archs(j, l);
	}
	json_add_str(j, "note", *l->note ? l->note : NULL);
	p = json_add_object(j, "provenance");
	json_add_str(p, "gpu", device ? device->gpu : NULL);
	json_add_str(p, "driver", device ? device->driver : NULL);
	json_add_str(p, "cuda", device ? device->cuda : NULL);
	json_add_str(p, "date", host_date());
	json_add_str(p, "nvcc", l->kernel->triton ? NULL : build_nvcc_version());
	lab_emit(row, j);
	json_free(j);
}

/* --- judging ------------------------------------------------------------------- */

static void refute(struct label *l, const struct claim *c, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void refute(struct label *l, const struct claim *c, const char *fmt, ...)
{
	struct buf where = { 0 };
	char what[240];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	buf_printf(&where, "%s%s%s", l->kernel->path, l->fault ? " fault " : "",
	           l->fault ? l->fault->name : "");
	if (c->arch) {
		buf_printf(&where, " %s", c->arch);
	} else {
		const struct plan_set *s = &l->sets[c->set];

		buf_printf(&where, " %s", dtype_name(c->dtype));
		for (int i = 0; i < l->kernel->n_params; i++)
			buf_printf(&where, "%c%s=%lld", i ? ',' : ' ', l->kernel->params[i].name,
			           (long long)s->params[i]);
		for (int i = 0; i < l->op->n_axes; i++)
			buf_printf(&where, "%c%s=%lld", i ? ',' : ' ', l->op->axes[i],
			           (long long)s->shapes[c->shape][i]);
		buf_printf(&where, " seed %d", c->seed);
	}
	if (!l->refuted++) {
		snprintf(l->note, sizeof l->note, "%s: %s", where.data, what);
		warn("%s label does not hold: %s: %s", kind_names[l->kind], where.data, what);
	}
	buf_free(&where);
}

static void first_line(const char *text, char *out, size_t n)
{
	snprintf(out, n, "%.*s", (int)strcspn(text, "\n"), text);
}

static void judge_run(struct label *l, const struct claim *c, const struct job *j)
{
	const struct run_answer *a = &j->run.answer;
	char line[200];

	if (j->object->state != OBJECT_READY) {
		first_line(j->object->log, line, sizeof line);
		refute(l, c, "it does not compile: %s", line);
	} else if (*j->object->forbidden) {
		refute(l, c, "it may not be loaded: %s", j->object->forbidden);
	} else if (j->run.end != END_ANSWER) {
		l->given_up = true;
		refute(l, c, "%s: %s", j->run.end == END_TIMEOUT ? "timeout" : "crashed",
		       j->run.text);
	} else if (a->status == RUN_FAILED) {
		if (a->reason > 0 && a->reason < RUN_REASONS)
			l->reasons[a->reason]++;
		if (l->kind == LABEL_VERIFIES)
			refute(l, c, "%s: %s", answer_reason(a->reason), j->run.text);
	} else if (a->status == RUN_PASSED) {
		if (l->kind == LABEL_WRONG)
			refute(l, c, "it passes");
	} else {
		l->given_up = a->status == RUN_CRASHED;
		refute(l, c, "%s: %s",
		       a->status == RUN_LAUNCH_ERROR ? "launch error"
		       : a->status == RUN_UNCOMPILED ? "it does not compile"
		                                     : "crashed",
		       j->run.text);
	}
}

static void judge_build(struct label *l, const struct claim *c, const struct object *o)
{
	int line, len;
	const char *words;
	char text[200];

	first_line(o->log, text, sizeof text);
	if (l->kind == LABEL_ARCH) {
		if (c->met && o->state != OBJECT_READY)
			refute(l, c, "it does not compile: %s", text);
		else if (!c->met && o->state == OBJECT_READY)
			refute(l, c, "it compiles");
		return;
	}
	if (o->state == OBJECT_READY) {
		refute(l, c, "it compiles");
	} else if (!build_first_error(o, &line, &words, &len)) {
		refute(l, c, "an error of another kind: %s", text);
	} else {
		size_t n = strlen(l->fault->says);

		/* Python's message may go on after the error's type. */
		if ((size_t)len < n || memcmp(words, l->fault->says, n) ||
		    ((size_t)len > n && !(l->kernel->triton && words[n] == ':')))
			refute(l, c, "another message: %.*s", len, words);
		else if (line != c->line + l->fault->says_offset)
			refute(l, c, "on line %d, not %d", line, c->line + l->fault->says_offset);
	}
}

static void release(struct label *l)
{
	free(l->jobs);
	free(l->claims);
	l->jobs = NULL;
	l->claims = NULL;
}

static void job_done(struct job *j)
{
	struct claim *c = j->owner;
	struct label *l = c->label;
	bool lost = j->object->state == OBJECT_BROKEN || j->run.end == END_INFRA;

	if (l->given_up) {
		l->skipped++;
	} else if (lost) {
		/* Says nothing about the label: left open, to be asked again. */
		l->n_sets = -1;
		infra++;
		warn("%s: no answer: %s", l->kernel->path,
		     j->run.end == END_INFRA ? j->run.text : j->object->log);
	} else if (j->build_only && (l->kind == LABEL_VERIFIES || l->kind == LABEL_WRONG)) {
		/* Only its object was wanted: that refutes or says nothing. */
		if (j->object->state != OBJECT_READY || *j->object->forbidden)
			judge_run(l, c, j);
		else
			l->n_sets = -1;
	} else if (j->build_only) {
		judge_build(l, c, j->object);
	} else {
		judge_run(l, c, j);
	}
	if (--l->left)
		return;
	if (l->n_sets >= 0 || l->refuted) {
		print_label(l);
		proved++;
		refuted += l->refuted > 0;
	}
	release(l);
}

/* --- jobs ---------------------------------------------------------------------- */

static struct problem problem_of(const struct label *l, enum dtype dtype)
{
	return (struct problem){ .op = l->op,
		                 .impl = l->kernel->triton ? IMPL_TRITON : IMPL_CUDA,
		                 .gpu = lab->gpu,
		                 .dtype = dtype };
}

static void make_room(struct label *l, int n)
{
	l->jobs = xmalloc((unsigned long)n * sizeof *l->jobs);
	l->claims = xmalloc((unsigned long)n * sizeof *l->claims);
}

static void add_job(struct label *l, struct claim c, struct object *o, unsigned what)
{
	struct problem p = problem_of(l, c.dtype);
	struct job *j = &l->jobs[l->n];

	c.label = l;
	l->claims[l->n] = c;
	if (what)
		memcpy(p.shape, l->sets[c.set].shapes[c.shape], sizeof p.shape);
	else
		memcpy(p.shape, l->op->shapes[0], sizeof p.shape);
	lab_job(lab, j, &p, o, what,
	        rng_mix2(rng_mix2(lab->seed, (uint64_t)(c.set * 64 + c.shape)), (uint64_t)c.seed));
	j->build_only = !what || options.build_only;
	j->cancel = &l->given_up;
	j->owner = &l->claims[l->n++];
	j->done = job_done;
}

/* The dtypes that the kernel serves, in turn. */
static enum dtype nth_dtype(const struct label *l, int i)
{
	enum dtype served[4] = { DT_FP16 };
	int n = 0;

	for (int d = 0; d < l->op->n_dtypes; d++) {
		if (kernel_has_dtype(l->kernel, dtype_name(l->op->dtypes[d])))
			served[n++] = l->op->dtypes[d];
	}
	return served[n ? i % n : 0];
}

static void plan_runs(struct label *l)
{
	bool wrong = l->kind == LABEL_WRONG;
	struct problem p = problem_of(l, wrong ? nth_dtype(l, 0) : l->dtype);
	int seeds = wrong ? SEEDS : 1;

	l->n_sets = plan_sets(&p, l->kernel, l->fault, wrong ? &small : &large, lab->seed, l->sets);
	if (!l->n_sets)
		l->n_sets = plan_sets(&p, l->kernel, l->fault, &any, lab->seed, l->sets);
	make_room(l, PLAN_SETS * PLAN_SHAPES * SEEDS);
	for (int s = 0; s < l->n_sets; s++) {
		enum dtype dtype = wrong ? nth_dtype(l, s) : l->dtype;
		struct object *o = lab_render(lab, l->kernel, l->op, dtype, l->sets[s].params,
		                              l->fault, BUILD_OBJECT, NULL, NULL);

		p.dtype = dtype;
		for (int i = 0; i < l->sets[s].n_shapes; i++) {
			/* The sets were chosen for the first dtype. */
			memcpy(p.shape, l->sets[s].shapes[i], sizeof p.shape);
			if (!plan_fits(&p, l->kernel, l->sets[s].params, l->fault))
				continue;
			for (int seed = 0; seed < seeds; seed++)
				add_job(l,
				        (struct claim){ .dtype = dtype,
				                        .set = s,
				                        .shape = i,
				                        .seed = seed },
				        o, RUN_VERIFY);
		}
	}
	if (l->n)
		return;
	refute(l, &(struct claim){ .arch = "nowhere" },
	       "no parameters and shape that it applies to");
	print_label(l);
	proved++;
	refuted++;
	release(l);
}

/* Every arch of gpu.def once. */
static int list_archs(const struct gpu *out[MAX_ARCHS])
{
	int n, m = 0;
	const struct gpu *list = gpu_list(&n);

	for (int i = 0; i < n && m < MAX_ARCHS; i++) {
		int k = 0;

		while (k < m && strcmp(out[k]->arch, list[i].arch))
			k++;
		if (k == m)
			out[m++] = &list[i];
	}
	return m;
}

static void plan_builds(struct label *l)
{
	const struct gpu *archs[MAX_ARCHS];
	int n = list_archs(archs);
	int64_t params[KERNEL_MAX_PARAMS];
	enum dtype dtype = nth_dtype(l, 0);

	make_room(l, MAX_ARCHS);
	config_preset(l->kernel, params);
	for (int i = 0; i < n; i++) {
		struct claim c = { .arch = archs[i]->arch,
			           .met = !config_unmet(archs[i], l->kernel),
			           .dtype = dtype };
		struct object *o;

		if (l->kernel->triton && i)
			break; /* Python's parser knows no arch */
		if (l->kind == LABEL_COMPILE && !c.met)
			continue;
		o = lab_render(lab, l->kernel, l->op, dtype, params, l->fault,
		               l->kind == LABEL_COMPILE ? BUILD_FRONT : BUILD_CODE, archs[i]->arch,
		               &c.line);
		add_job(l, c, o, 0);
	}
}

/* --- the list ------------------------------------------------------------------ */

static void add_label(enum label_kind kind, const struct op *op, const struct kernel *k,
                      enum dtype dtype, const struct kernel_fault *f)
{
	static struct buf key;
	struct label *l = &labels[n_labels];

	if (n_labels == MAX_LABELS)
		bug("more than %d labels", MAX_LABELS);
	*l = (struct label){ .kind = kind, .op = op, .kernel = k, .dtype = dtype, .fault = f };
	hash_label(l);
	buf_clear(&key);
	done_text(&key, l->hash);
	done_text(&key, "yes");
	n_labels += !done_has(&key);
}

/* What can be proved here: a GPU is at hand, and it is one that the variant can
 * run on. */
static bool can_run(const struct kernel *k)
{
	return (lab->device || options.list || options.build_only) && !config_unmet(lab->gpu, k);
}

static void for_kernels(void (*fn)(const struct op *op, const struct kernel *k, int round),
                        int rounds)
{
	enum { MAX_VARIANTS = 64 };
	int n_ops;
	const struct op *const *ops = op_list(&n_ops);

	for (int round = 0; round < rounds; round++) {
		for (int v = 0; v < MAX_VARIANTS; v++) {
			for (int o = 0; o < n_ops * IMPL_COUNT; o++) {
				const struct op *op = ops[o / IMPL_COUNT];
				int n;
				const struct kernel *const *list =
					kernel_list(op->name, o % IMPL_COUNT == IMPL_TRITON, &n);

				if (v < n && lab_wants_op(lab, op->name) &&
				    lab_wants_variant(lab, list[v]->variant))
					fn(op, list[v], round);
			}
		}
	}
}

static void add_verifies(const struct op *op, const struct kernel *k, int round)
{
	(void)round;
	for (int d = 0; can_run(k) && d < op->n_dtypes; d++) {
		if (kernel_has_dtype(k, dtype_name(op->dtypes[d])))
			add_label(LABEL_VERIFIES, op, k, op->dtypes[d], NULL);
	}
}

static void add_wrong(const struct op *op, const struct kernel *k, int round)
{
	if (can_run(k) && round < k->n_faults && !k->faults[round].compile)
		add_label(LABEL_WRONG, op, k, 0, &k->faults[round]);
}

static void add_compile(const struct op *op, const struct kernel *k, int round)
{
	if (round < k->n_faults && k->faults[round].compile)
		add_label(LABEL_COMPILE, op, k, 0, &k->faults[round]);
}

static void add_arch(const struct op *op, const struct kernel *k, int round)
{
	(void)round;
	if (!k->triton)
		add_label(LABEL_ARCH, op, k, 0, NULL);
}

static bool wants(enum label_kind kind)
{
	size_t n = strlen(kind_names[kind]);

	if (!options.kinds)
		return true;
	for (const char *p = options.kinds; *p; p += strcspn(p, ","), p += *p == ',') {
		if (strcspn(p, ",") == n && !memcmp(p, kind_names[kind], n))
			return true;
	}
	return false;
}

const char *labels_kind(const char *name)
{
	for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++) {
		if (!strcmp(kind_names[i], name))
			return NULL;
	}
	return "unknown kind of label";
}

static int list_missing(void)
{
	for (int i = 0; i < n_labels; i++) {
		const struct label *l = &labels[i];

		struct buf line = { 0 };

		buf_printf(&line, "%s %s %s %s\n", l->hash, l->kernel->path, kind_names[l->kind],
		           l->fault                    ? l->fault->name
		           : l->kind == LABEL_VERIFIES ? dtype_name(l->dtype)
		                                       : "");
		out_write(line.data, line.len);
		buf_free(&line);
	}
	out_close();
	return n_labels ? EX_ROW : EX_DONE;
}

int labels_run(const struct lab *l, const struct labels_options *o)
{
	enum { MAX_FAULTS = 40 };
	struct row r;
	int dropped;

	lab = l;
	options = *o;
	labels = xmalloc(MAX_LABELS * sizeof *labels);
	if (wants(LABEL_VERIFIES))
		for_kernels(add_verifies, 1);
	if (wants(LABEL_WRONG))
		for_kernels(add_wrong, MAX_FAULTS);
	if (wants(LABEL_ARCH))
		for_kernels(add_arch, 1);
	if (wants(LABEL_COMPILE))
		for_kernels(add_compile, MAX_FAULTS);
	if (options.list)
		return list_missing();
	source_open(&r, -1);
	row = &r;
	for (int i = 0; i < n_labels; i++) {
		struct label *x = &labels[i];

		if (x->kind == LABEL_VERIFIES || x->kind == LABEL_WRONG)
			plan_runs(x);
		else
			plan_builds(x);
		x->left = x->n;
		for (int k = 0; k < x->n; k++)
			schedule_add(&x->jobs[k]);
	}
	dropped = schedule_run();
	warn("%d labels proved, %d of them do not hold, %d of %d open%s", proved, refuted,
	     n_labels - proved, n_labels,
	     dropped ? ": out of time"
	     : infra ? ": no answer"
	             : "");
	source_close(&r);
	return refuted ? EX_ROW : EX_DONE;
}

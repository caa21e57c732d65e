/* noise.c - the same kernels timed again and again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/rng.h"
#include "episode/schema.h"
#include "gpurun/done.h"
#include "gpurun/host.h"
#include "gpurun/sweep.h"

enum { PROCESSES = 5, BLOCKS = 4, PER_TARGET = 3, TARGETS = 4, MAX_SUBJECTS = 512, GAPS = 3 };

static const double target_ms[TARGETS] = { 0.003, 0.03, 0.3, 3 }, gap_ms[GAPS] = { 0, 50, 1000 };

const char *const noise_members[] = {
	"op", "impl", "gpu", "dtype", "shape", "source_hash", "process", "block", NULL,
};

/* A kernel at a shape, and the time that the sweep found. */
struct subject {
	struct problem problem;
	const struct kernel *kernel;
	int64_t params[KERNEL_MAX_PARAMS];
	double ms;
	int target;
	struct object *object;
};

struct block {
	const struct subject *subject;
	int process, block, order;
	double gap_ms;
	struct job job;
};

static const struct lab *lab;
static struct row row;
static struct subject subjects[MAX_SUBJECTS];
static int n_subjects, printed;

/* --- which kernels --------------------------------------------------------------- */

static const char *text(const json *j, const char *key)
{
	const json *v = json_get(j, key);

	return json_is_string(v) ? json_str(v) : "";
}

/* A sweep's row as a subject; false if it is not a correct one of this GPU. */
static bool read_subject(const json *j, struct subject *s)
{
	const json *shape = json_get(j, "shape"), *params = json_get(j, "params");
	const json *ms = json_get(json_get(j, "bench"), "ms");
	int impl = impl_from_name(text(j, "impl")), dtype = dtype_from_name(text(j, "dtype"));

	memset(s, 0, sizeof *s);
	s->problem =
		(struct problem){ .op = op_find(text(j, "op")), .gpu = gpu_find(text(j, "gpu")) };
	if (strcmp(text(j, "status"), word_name(OUTCOME_OK)) || !json_is_number(ms) || impl < 0 ||
	    dtype < 0 || !s->problem.op || s->problem.gpu != lab->gpu ||
	    !lab_wants_op(lab, s->problem.op->name))
		return false;
	s->problem.impl = (enum impl)impl;
	s->problem.dtype = (enum dtype)dtype;
	s->ms = json_num(ms);
	for (const json *c = json_first(shape); c; c = json_next(c)) {
		int a = op_axis(s->problem.op, json_key(c));

		if (a < 0 || !json_is_int(c))
			return false;
		s->problem.shape[a] = json_int(c);
	}
	s->kernel = kernel_find(s->problem.op->name, impl == IMPL_TRITON, text(j, "variant"));
	if (!s->kernel || op_illegal(s->problem.op, s->problem.shape, s->problem.dtype))
		return false;
	config_preset(s->kernel, s->params);
	for (const json *c = json_first(params); c; c = json_next(c)) {
		int a = kernel_param_index(s->kernel, json_key(c));

		if (a < 0 || !json_is_int(c))
			return false;
		s->params[a] = json_int(c);
	}
	return true;
}

/* How far from the target, as a ratio of at least 1. */
static double distance(const struct subject *s, int target)
{
	double x = s->ms / target_ms[target];

	return x > 1 ? x : 1 / x;
}

/* Keeps the PER_TARGET nearest of each op and target, of different variants as
 * long as there are some. */
static void offer(const struct subject *s)
{
	for (int t = 0; t < TARGETS; t++) {
		struct subject *worst = NULL;
		int n = 0;

		if (distance(s, t) > 3)
			continue;
		for (int i = 0; i < n_subjects; i++) {
			struct subject *x = &subjects[i];

			if (x->problem.op != s->problem.op || x->problem.impl != s->problem.impl ||
			    x->target != t)
				continue;
			n++;
			if (x->kernel == s->kernel) {
				worst = x;
				n = PER_TARGET;
				break;
			}
			if (!worst || distance(x, t) > distance(worst, t))
				worst = x;
		}
		if (n < PER_TARGET && n_subjects < MAX_SUBJECTS)
			worst = &subjects[n_subjects++];
		else if (!worst || distance(worst, t) <= distance(s, t))
			continue;
		*worst = *s;
		worst->target = t;
	}
}

static void read_sweep(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	if (!f)
		die_errno("cannot read '%s'", path);
	while ((n = getline(&line, &cap, f)) > 0) {
		json *j = json_parse(line, (size_t)n);
		struct subject s;

		if (json_is_object(j) && read_subject(j, &s))
			offer(&s);
		if (j)
			json_free(j);
	}
	free(line);
	fclose(f);
}

/* --- blocks ---------------------------------------------------------------------- */

static void block_done(struct job *j)
{
	struct block *b = j->owner;
	const struct subject *s = b->subject;
	const struct run_answer *a = &j->run.answer;
	json *root, *ms;
	char hash[17];

	if (j->run.end != END_ANSWER || a->status != RUN_PASSED || a->samples < 1) {
		warn("%s: no samples: %s", s->kernel->path,
		     j->run.end == END_NONE ? j->object->log : j->run.text);
		free(b);
		return;
	}
	root = json_new_object();
	lab_write_config(root, &s->problem, s->kernel, s->params, NULL);
	hash_hex(s->object->source_hash, hash);
	json_add_str(root, "source_hash", hash);
	json_add_num(root, "target_ms", target_ms[s->target]);
	json_add_int(root, "process", b->process);
	json_add_int(root, "block", b->block);
	json_add_int(root, "order", b->order);
	json_add_num(root, "gap_ms", b->gap_ms);
	ms = json_add_array(root, "ms");
	for (int i = 0; i < a->samples; i++)
		json_push(ms, json_new_num(num_time(a->ms[i])));
	json_add_str(root, "gpu_name", lab->device->gpu);
	json_add_str(root, "driver", lab->device->driver);
	json_add_str(root, "date", host_date());
	json_add_int(root, "clocks_before", a->sm_mhz_before);
	json_add_int(root, "clocks_after", a->sm_mhz_after);
	lab_emit(&row, root);
	json_free(root);
	free(b);
	printed++;
}

static bool known(const struct subject *s, int process, int block)
{
	static struct buf key;

	buf_clear(&key);
	done_problem(&key, &s->problem, s->object->source_hash);
	done_int(&key, process);
	done_int(&key, block);
	return done_has(&key);
}

static void add_process(int process)
{
	struct rng rng = rng_make(rng_mix2(lab->seed, (uint64_t)process), "noise");
	int n = n_subjects * BLOCKS, *order = xmalloc((unsigned long)(n + 1) * sizeof *order);

	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)rng_below(&rng, (uint64_t)i + 1), x = order[i];

		order[i] = order[j];
		order[j] = x;
	}
	for (int i = 0; i < n; i++) {
		const struct subject *s = &subjects[order[i] / BLOCKS];
		int block = order[i] % BLOCKS;
		struct block *b;

		/* Drawn for all, done or not: a continued run is the same run. */
		double gap = gap_ms[rng_below(&rng, GAPS)];

		if (known(s, process, block))
			continue;
		b = xmalloc(sizeof *b);
		*b = (struct block){
			.subject = s, .process = process, .block = block, .order = i, .gap_ms = gap
		};
		lab_job(lab, &b->job, &s->problem, s->object, RUN_VERIFY | RUN_TIME,
		        rng_mix2(lab->seed, (uint64_t)(process * 1000 + i)));
		b->job.run.request.gap_ms = gap;
		b->job.owner = b;
		b->job.done = block_done;
		schedule_add(&b->job);
	}
	free(order);
}

int noise_run(const struct lab *l, const char *from)
{
	int dropped = 0;

	lab = l;
	read_sweep(from);
	if (!n_subjects)
		die(EX_ROW, "no rows of status ok for %s in '%s'", lab->gpu->name, from);
	source_open(&row, -1);
	for (int i = 0; i < n_subjects; i++) {
		struct subject *s = &subjects[i];

		s->object = lab_render(lab, s->kernel, s->problem.op, s->problem.dtype, s->params,
		                       NULL, BUILD_OBJECT, NULL, NULL);
	}
	for (int process = 1; process <= PROCESSES && !dropped; process++) {
		pool_fresh();
		add_process(process);
		dropped = schedule_run();
	}
	warn("%d blocks of %d kernels%s", printed, n_subjects,
	     dropped ? ", out of time: go on with --done" : "");
	source_close(&row);
	return EX_DONE;
}

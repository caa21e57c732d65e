/* sweep.c - configurations at shapes. */
#include "gpurun/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/num.h"
#include "base/rng.h"
#include "episode/schema.h"
#include "episode/write.h"
#include "gpurun/done.h"
#include "gpurun/plan.h"

enum { MAX_CONFIGS = 200, MAX_PAIRS = 64 };

const char *const sweep_members[] = {
	"op", "impl", "gpu", "dtype", "shape", "provenance.source_hash", "process", NULL,
};

/* One configuration at one shape. */
struct trial {
	struct problem problem;
	const struct plan_config *config;
	int process;
	struct job job;
	const struct yardstick *yardstick;
};

/* An op and impl with its configurations. */
struct pair {
	struct problem problem; /* shape not used */
	int n, n_shapes;
	struct plan_config configs[MAX_CONFIGS];
};

static const struct lab *lab;
static struct sweep_options options;
static struct row row;
static int impossible, printed;

static void print_trial(const struct trial *t)
{
	const struct plan_config *c = t->config;
	struct message m;
	struct finding f = {
		.problem = &t->problem,
		.object = t->job.object,
		.run = &t->job.run,
		.unmet = config_unmet(t->problem.gpu, c->kernel),
		.floor_ms = t->yardstick->floor_ms,
		.stream_ms = t->yardstick->stream_ms,
		.device = lab->device,
	};
	double least = answer_impossible(&f);
	json *root = json_new_object();
	struct row r = { .file = c->kernel->path, .root = root };

	if (least > 0) {
		warn("%s: a time below %g ms, which no kernel can reach", c->kernel->path, least);
		impossible++;
		json_free(root);
		return;
	}
	lab_write_config(root, &t->problem, c->kernel, c->params, c->fault);
	answer_message(&f, &m);
	result_write(&r, &m, word_name(ORIGIN_MEASURED), answer_provenance(&f));
	json_add_str(root, "role", plan_role_name(c->role));
	json_add_int(root, "process", t->process);
	lab_emit(&row, root);
	json_free(root);
	printed++;
}

static void job_done(struct job *j)
{
	struct trial *t = j->owner;

	if (!options.build_only)
		print_trial(t);
	free(t);
}

static bool known(const struct trial *t)
{
	static struct buf key;

	buf_clear(&key);
	done_problem(&key, &t->problem, t->job.object->source_hash);
	done_int(&key, t->process);
	return done_has(&key);
}

static void add_trial(const struct pair *x, const struct plan_config *c, int shape, int process)
{
	struct trial *t = xmalloc(sizeof *t);
	struct object *o;

	*t = (struct trial){ .problem = x->problem, .config = c, .process = process };
	memcpy(t->problem.shape, x->problem.op->shapes[shape], sizeof t->problem.shape);
	/* What the shape rules out is asked all the same if it was to do badly. */
	if (c->role != ROLE_POOR && !plan_fits(&t->problem, c->kernel, c->params, c->fault)) {
		free(t);
		return;
	}
	o = lab_render(lab, c->kernel, x->problem.op, x->problem.dtype, c->params, c->fault,
	               BUILD_OBJECT, NULL, NULL);
	t->job.object = o;
	if (known(t)) {
		free(t);
		return;
	}
	if (!options.build_only)
		t->yardstick = lab_yardstick(lab, &t->problem);
	lab_job(lab, &t->job, &t->problem, o, RUN_VERIFY | RUN_TIME,
	        rng_mix2(lab->seed, (uint64_t)(shape * 8 + process)));
	t->job.build_only = options.build_only;
	t->job.after = t->yardstick ? &t->yardstick->done : NULL;
	t->job.owner = t;
	t->job.done = job_done;
	schedule_add(&t->job);
}

static void shuffle(int *at, int n, struct rng *rng)
{
	for (int i = 0; i < n; i++)
		at[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)rng_below(rng, (uint64_t)i + 1), x = at[i];

		at[i] = at[j];
		at[j] = x;
	}
}

/* The pairs of op and impl that are wanted, each in its first dtype. */
static int list_pairs(struct pair **out)
{
	int n_ops, n = 0;
	const struct op *const *ops = op_list(&n_ops);

	for (int o = 0; o < n_ops * IMPL_COUNT; o++) {
		const struct op *op = ops[o / IMPL_COUNT];
		enum impl impl = (enum impl)(o % IMPL_COUNT);
		struct pair *x;

		if (!(op->impls & 1u << impl) || !lab_wants_op(lab, op->name) || n == MAX_PAIRS)
			continue;
		x = xmalloc(sizeof *x);
		x->problem = (struct problem){
			.op = op, .impl = impl, .gpu = lab->gpu, .dtype = op->dtypes[0]
		};
		x->n_shapes = options.shapes < op->n_shapes ? options.shapes : op->n_shapes;
		x->n = plan_sweep(&x->problem, op->shapes, x->n_shapes, options.configs, lab->seed,
		                  x->configs);
		out[n++] = x;
	}
	return n;
}

/* One process: of each pair every config (or every tenth), each at a shape of its
 * own in each round, so that after a round all configs and all shapes occur. */
static void add_process(struct pair *const *pairs, int n, int process)
{
	int order[MAX_CONFIGS];
	struct rng rng = rng_make(rng_mix2(lab->seed, (uint64_t)process), "sweep");

	for (int round = 0; round < options.shapes; round++) {
		for (int p = 0; p < n; p++) {
			const struct pair *x = pairs[p];

			shuffle(order, x->n, &rng);
			for (int i = 0; i < x->n && round < x->n_shapes; i++) {
				int at = order[i], shape = (round + at) % x->n_shapes;

				if (process == 1 || (at + shape * 7) % 10 == 0)
					add_trial(x, &x->configs[at], shape, process);
			}
		}
	}
}

int sweep_run(const struct lab *l, const struct sweep_options *o)
{
	struct pair *pairs[MAX_PAIRS] = { NULL };
	int n, dropped;

	lab = l;
	options = *o;
	if (options.configs > MAX_CONFIGS)
		options.configs = MAX_CONFIGS;
	source_open(&row, -1);
	n = list_pairs(pairs);
	add_process(pairs, n, 1);
	dropped = schedule_run();
	if (!dropped && !options.build_only) {
		pool_fresh();
		add_process(pairs, n, 2);
		dropped = schedule_run();
	}
	warn("%d rows%s", printed, dropped ? ", out of time: go on with --done" : "");
	for (int i = 0; i < n; i++)
		free(pairs[i]);
	source_close(&row);
	return impossible ? EX_ROW : EX_DONE;
}

/* --- PyTorch ------------------------------------------------------------------- */

const char *const peers_members[] = { "op", "dtype", "shape", "peer", NULL };

struct peer {
	struct problem problem;
	const char *name;
	struct job job;
	const struct yardstick *yardstick;
};

static void peer_done(struct job *j)
{
	struct peer *p = j->owner;
	const struct run_answer *a = &j->run.answer;
	json *root = json_new_object();
	struct task t = { .op = p->problem.op,
		          .impl = p->problem.impl,
		          .gpu = p->problem.gpu,
		          .dtype = p->problem.dtype };
	struct object none = { .mode = BUILD_PYTHON, .arch = p->problem.gpu->arch };
	struct finding f = { .problem = &p->problem,
		             .object = &none,
		             .run = &j->run,
		             .floor_ms = p->yardstick->floor_ms,
		             .stream_ms = p->yardstick->stream_ms,
		             .device = lab->device };
	bool ok = j->run.end == END_ANSWER && a->status == RUN_PASSED && a->samples > 0;
	struct timing timing;

	memcpy(t.shape, p->problem.shape, sizeof t.shape);
	problem_write(root, &t);
	json_add_str(root, "peer", p->name);
	json_add_str(root, "status",
	             word_name(ok                         ? OUTCOME_OK
	                       : j->run.end == END_ANSWER ? OUTCOME_LAUNCH_ERROR
	                                                  : OUTCOME_INFRA_ERROR));
	timing_of(a->ms, ok ? a->samples : 0, &timing);
	if (ok)
		json_add_num(root, "ms", num_time(timing.median));
	else
		json_add_null(root, "ms");
	json_add(root, "provenance", answer_provenance(&f));
	lab_emit(&row, root);
	json_free(root);
	free(p);
	printed++;
}

static void add_peer(const struct op *op, int shape, const char *name)
{
	struct peer *p = xmalloc(sizeof *p);
	static struct buf key;

	*p = (struct peer){
		.problem = { .op = op,
		             .impl = op->impls & 1u << IMPL_CUDA ? IMPL_CUDA : IMPL_TRITON,
		             .gpu = lab->gpu,
		             .dtype = op->dtypes[0] },
		.name = name,
	};
	memcpy(p->problem.shape, op->shapes[shape], sizeof p->problem.shape);
	buf_clear(&key);
	done_text(&key, op->name);
	done_text(&key, dtype_name(p->problem.dtype));
	done_shape(&key, op, p->problem.shape);
	done_text(&key, name);
	if (done_has(&key)) {
		free(p);
		return;
	}
	p->yardstick = lab_yardstick(lab, &p->problem);
	lab_job(lab, &p->job, &p->problem, NULL, RUN_TIME, lab->seed);
	p->job.run.kind = WORKER_TRITON;
	p->job.after = &p->yardstick->done;
	p->job.name = !strcmp(name, "eager") ? "torch:eager" : "torch:compiled";
	p->job.owner = p;
	p->job.done = peer_done;
	schedule_add(&p->job);
}

int peers_run(const struct lab *l, int shapes)
{
	static const char *const compiled[] = { "rmsnorm", "rope", "swiglu_act" };
	int n_ops, dropped;
	const struct op *const *ops = op_list(&n_ops);

	lab = l;
	source_open(&row, -1);
	for (int s = 0; s < shapes; s++) {
		for (int o = 0; o < n_ops; o++) {
			if (!lab_wants_op(lab, ops[o]->name) || s >= ops[o]->n_shapes)
				continue;
			add_peer(ops[o], s, "eager");
			for (size_t c = 0; c < sizeof compiled / sizeof *compiled; c++) {
				if (!strcmp(compiled[c], ops[o]->name))
					add_peer(ops[o], s, "compiled");
			}
		}
	}
	dropped = schedule_run();
	warn("%d rows%s", printed, dropped ? ", out of time: go on with --done" : "");
	source_close(&row);
	return EX_DONE;
}

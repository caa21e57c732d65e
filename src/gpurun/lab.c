/* lab.c - configurations into objects and jobs. */
#include "gpurun/lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/out.h"
#include "episode/write.h"

static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	if (!list)
		return true;
	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
		if (strcspn(p, ",") == n && !memcmp(p, name, n))
			return true;
	}
	return false;
}

bool lab_wants_op(const struct lab *l, const char *op)
{
	return listed(l->ops, op);
}

bool lab_wants_variant(const struct lab *l, const char *variant)
{
	return listed(l->variants, variant);
}

struct object *lab_build(const struct lab *l, const struct op *op, bool triton,
                         enum build_mode mode, const char *arch, const char *source, size_t len,
                         const char *group)
{
	struct build_request r = {
		/* Triton's launcher is always `launch`. */
		.op = op->name,
		.arch = arch ? arch : l->gpu->arch,
		.mode = triton ? BUILD_PYTHON : mode,
		.source = source,
		.len = len,
		.group = group,
	};

	return build_want(&r);
}

struct object *lab_render(const struct lab *l, const struct kernel *k, const struct op *op,
                          enum dtype dtype, const int64_t *params, const struct kernel_fault *f,
                          enum build_mode mode, const char *arch, int *line)
{
	static struct buf source;
	int at;
	const char *group = f || config_unmet(l->gpu, k) ? NULL : k->path;

	buf_clear(&source);
	kernel_render(k, dtype_name(dtype), params, f, &source, &at);
	if (line)
		*line = at;
	return lab_build(l, op, k->triton, mode, arch, source.data, source.len, group);
}

static void fill(char *to, size_t n, const char *from)
{
	if (strlen(from) >= n)
		bug("'%s' is too long for a request", from);
	memset(to, 0, n);
	memcpy(to, from, strlen(from));
}

void lab_job(const struct lab *l, struct job *j, const struct problem *p, struct object *o,
             unsigned what, uint64_t seed)
{
	struct run_request *q = &j->run.request;

	*j = (struct job){ .object = o };
	j->run.kind = o && o->mode == BUILD_PYTHON ? WORKER_TRITON : WORKER_CUDA;
	q->what = what;
	fill(q->op, sizeof q->op, p->op->name);
	fill(q->dtype, sizeof q->dtype, dtype_name(p->dtype));
	for (int i = 0; i < p->op->n_axes; i++)
		q->shape[i] = p->shape[i];
	q->seed = seed;
	q->max_samples = l->samples;
	q->budget_ms = l->budget_ms;
	q->bytes_written = p->op->bytes_out(p->shape, p->dtype);
	q->bytes_read = p->op->bytes(p->shape, p->dtype) - q->bytes_written;
}

/* --- the yardstick ------------------------------------------------------------ */

static void measured(struct job *j)
{
	struct yardstick *y = j->owner;

	y->done = true;
	if (j->run.end != END_ANSWER || j->run.answer.status != RUN_PASSED)
		return;
	if (j->run.answer.floor_ms > 0)
		y->floor_ms = j->run.answer.floor_ms;
	if (j->run.answer.stream_ms > 0)
		y->stream_ms = j->run.answer.stream_ms;
}

const struct yardstick *lab_yardstick(const struct lab *l, const struct problem *p)
{
	static struct yardstick *all;
	int64_t written = p->op->bytes_out(p->shape, p->dtype);
	int64_t read = p->op->bytes(p->shape, p->dtype) - written;
	struct yardstick *y;

	for (y = all; y; y = y->next) {
		if (y->read == read && y->written == written)
			return y;
	}
	y = xmalloc(sizeof *y);
	*y = (struct yardstick){
		.floor_ms = NAN, .stream_ms = NAN, .read = read, .written = written, .next = all
	};
	all = y;
	lab_job(l, &y->job, p, NULL, RUN_STREAM | RUN_FLOOR, l->seed);
	y->job.done = measured;
	y->job.owner = y;
	schedule_add(&y->job);
	return y;
}

/* --- rows ---------------------------------------------------------------------- */

void lab_emit(struct row *r, const json *j)
{
	row_emit_json(r, j);
	if (fflush(stdout))
		die_errno("cannot write '<stdout>'");
}

void lab_write_config(json *root, const struct problem *p, const struct kernel *k,
                      const int64_t *params, const struct kernel_fault *f)
{
	struct task t = { .op = p->op, .impl = p->impl, .gpu = p->gpu, .dtype = p->dtype };
	json *map;

	memcpy(t.shape, p->shape, sizeof t.shape);
	problem_write(root, &t);
	json_add_str(root, "variant", k->variant);
	map = json_add_object(root, "params");
	for (int i = 0; i < k->n_params; i++)
		json_add_int(map, k->params[i].name, params[i]);
	json_add_str(root, "fault", f ? f->name : NULL);
	json_add_null(root, "source");
}

/* candidates.c - a window of candidates and what came of them. */
#include "gpurun/candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "episode/read.h"
#include "episode/schema.h"
#include "episode/write.h"
#include "gpurun/done.h"

enum { WINDOW = 256 };

struct candidate {
	json *root; /* its row so far; ours */
	char *file; /* where it stood */
	int64_t line;
	struct problem problem;
	bool unmet;
	struct job job;
	const struct yardstick *yardstick;
	enum word simulated; /* WORD_COUNT: not known */
	bool decided;
};

static const struct lab *lab;
static struct candidates_options options;
static struct candidate window[WINDOW];
static int n_window, n_printed;
static struct row out_row;
static int64_t foreign, known, impossible, answered, agreement[WORD_COUNT + 1][WORD_COUNT];

void candidates_start(const struct lab *l, const struct candidates_options *o)
{
	lab = l;
	options = *o;
}

/* --- out ----------------------------------------------------------------------- */

static void print_candidate(struct candidate *c)
{
	struct message m;
	struct finding f = {
		.problem = &c->problem,
		.object = c->job.object,
		.run = &c->job.run,
		.unmet = c->unmet,
		.floor_ms = c->yardstick ? c->yardstick->floor_ms : NAN,
		.stream_ms = c->yardstick ? c->yardstick->stream_ms : NAN,
		.device = lab->device,
	};
	double least = answer_impossible(&f);

	if (least > 0) {
		struct timing t;

		timing_of(c->job.run.answer.ms, c->job.run.answer.samples, &t);
		warn("%s:%lld: %s takes %g ms, which no kernel can: at least %g", c->file,
		     (long long)c->line, c->problem.op->name, t.median, least);
		impossible++;
		return;
	}
	answer_message(&f, &m);
	answered++;
	if (c->simulated != WORD_COUNT)
		agreement[c->simulated][word_find(SET_OUTCOME, m.status)]++;
	out_row = (struct row){ .file = c->file, .line = c->line, .root = c->root };
	result_write(&out_row, &m, word_name(ORIGIN_MEASURED), answer_provenance(&f));
	lab_emit(&out_row, c->root);
}

static void drop(struct candidate *c)
{
	json_free(c->root);
	free(c->file);
}

static void job_done(struct job *j)
{
	struct candidate *c = j->owner;

	c->decided = true;
	while (n_printed < n_window && window[n_printed].decided) {
		c = &window[n_printed++];
		if (!options.build_only)
			print_candidate(c);
		drop(c);
	}
}

static void flush_window(void)
{
	schedule_run();
	/* Out of time: the rest is another run's, and so is what stands behind it. */
	for (; n_printed < n_window; n_printed++)
		drop(&window[n_printed]);
	n_window = n_printed = 0;
}

/* --- in ------------------------------------------------------------------------ */

/* A tree that outlives the row: long strings are fetched from the line. */
static json *copy_tree(const struct row *r, const json *j)
{
	json *copy;
	size_t n;

	switch (json_kind(j)) {
	case JSON_STRING: {
		const char *s = row_text(r, j, &n);

		/* The writer takes such a string for a mark of its own. */
		if (n && (unsigned char)*s == 1)
			row_fail(r, "a string begins with a control character");
		return json_new_str(s);
	}
	case JSON_ARRAY:
		copy = json_new_array();
		for (const json *c = json_first(j); c; c = json_next(c))
			json_push(copy, copy_tree(r, c));
		return copy;
	case JSON_OBJECT:
		copy = json_new_object();
		for (const json *c = json_first(j); c; c = json_next(c))
			json_add(copy, json_key(c), copy_tree(r, c));
		return copy;
	default:
		return json_copy(j);
	}
}

/* What a row says of its candidate, and its source. */
struct taken {
	struct problem problem;
	const struct kernel *kernel; /* NULL: not one of ours */
	const struct kernel_fault *fault;
	const char *source;
	size_t len;
	enum word simulated;
};

static bool wanted(const struct taken *t, struct object *o)
{
	static struct buf key;

	buf_clear(&key);
	done_problem(&key, &t->problem, o->source_hash);
	if (!done_has(&key))
		return true;
	known++;
	return false;
}

/* Gives root away. */
static void add(struct row *r, const struct taken *t, json *root)
{
	bool triton = t->problem.impl == IMPL_TRITON;
	bool alone = !t->kernel || t->fault || config_unmet(t->problem.gpu, t->kernel);
	struct object *o = lab_build(lab, t->problem.op, triton, BUILD_OBJECT, NULL, t->source,
	                             t->len, alone ? NULL : t->kernel->path);
	struct candidate *c = &window[n_window];

	if (schedule_late() || (!options.build_only && !wanted(t, o))) {
		json_free(root);
		return;
	}
	*c = (struct candidate){ .root = root,
		                 .file = xstrdup(r->file ? r->file : "-"),
		                 .line = r->line,
		                 .problem = t->problem,
		                 .simulated = t->simulated,
		                 .unmet = t->kernel && config_unmet(t->problem.gpu, t->kernel) };
	if (!options.build_only && !options.verify_only)
		c->yardstick = lab_yardstick(lab, &t->problem);
	lab_job(lab, &c->job, &t->problem, o,
	        options.verify_only ? RUN_VERIFY : RUN_VERIFY | RUN_TIME, lab->seed);
	c->job.build_only = options.build_only;
	c->job.after = c->yardstick ? &c->yardstick->done : NULL;
	c->job.owner = c;
	c->job.done = job_done;
	n_window++;
	schedule_add(&c->job);
	if (n_window == WINDOW)
		flush_window();
}

static void set_problem(struct taken *t, const struct task *task)
{
	t->problem = (struct problem){
		.op = task->op, .impl = task->impl, .gpu = task->gpu, .dtype = task->dtype
	};
	memcpy(t->problem.shape, task->shape, sizeof t->problem.shape);
}

static bool skipped(const struct taken *t)
{
	if (t->problem.gpu != lab->gpu)
		foreign++;
	return t->problem.gpu != lab->gpu || !lab_wants_op(lab, t->problem.op->name);
}

/* The map's values in the kernel's order; false if it has others than the
 * kernel's. */
static bool bind_params(const struct kernel *k, const struct map *m, int64_t *params,
                        const char **what)
{
	config_preset(k, params);
	for (int i = 0; i < m->n; i++) {
		int at = kernel_param_index(k, m->key[i]), v = 0;

		*what = m->key[i];
		if (at < 0)
			return false;
		while (v < k->params[at].n && k->params[at].value[v] != m->value[i])
			v++;
		if (v == k->params[at].n)
			return false;
		params[at] = m->value[i];
	}
	return true;
}

void candidates_take(struct row *r)
{
	static struct buf source;
	struct candidate_row c;
	struct taken t = { .simulated = WORD_COUNT };
	int64_t params[KERNEL_MAX_PARAMS];
	const char *what;
	json *root;
	int line;

	candidate_read(r, &c);
	set_problem(&t, &c.task);
	if (skipped(&t))
		return;
	t.kernel = kernel_find(t.problem.op->name, t.problem.impl == IMPL_TRITON, c.variant);
	if (!lab_wants_variant(lab, c.variant))
		return;
	if (!c.source) {
		const char *dtype = dtype_name(t.problem.dtype);

		if (!t.kernel)
			row_fail(r, "unknown variant '%s'", c.variant);
		if (!kernel_has_dtype(t.kernel, dtype))
			row_fail(r, "variant '%s' does not serve dtype '%s'", c.variant, dtype);
		if (c.fault && !(t.fault = kernel_fault_find(t.kernel, c.fault)))
			row_fail(r, "unknown fault '%s'", c.fault);
		if (!bind_params(t.kernel, &c.params, params, &what))
			row_fail(r, "variant '%s' has no such parameter '%s'", c.variant, what);
		buf_clear(&source);
		kernel_render(t.kernel, dtype, params, t.fault, &source, &line);
	} else {
		size_t n;
		const char *text = row_text(r, c.source, &n);

		t.kernel = NULL;
		buf_clear(&source);
		buf_add(&source, text, n);
	}
	t.source = source.data ? source.data : "";
	t.len = source.len;
	root = copy_tree(r, r->root);
	add(r, &t, root);
}

/* --- episodes ------------------------------------------------------------------ */

/* The status that the episode gives the candidate; what score made of an ok is
 * one. */
static enum word status_of(const struct episode *e, const char *candidate)
{
	for (int i = 0; i < e->n_messages; i++) {
		const struct message *m = &e->messages[i];
		int w;

		if (m->kind != KIND_RESULT || !m->candidate || strcmp(m->candidate, candidate))
			continue;
		w = word_find(SET_OUTCOME, m->status);
		if (w < 0)
			break;
		return w == OUTCOME_IMPROVED || w == OUTCOME_NO_IMPROVEMENT ? OUTCOME_OK
		                                                            : (enum word)w;
	}
	return WORD_COUNT;
}

/* Is the source one of ours, with or without a fault? */
static bool recognise(struct taken *t, const int64_t *params)
{
	static struct buf ours;
	int line;

	for (int i = -1; i < t->kernel->n_faults; i++) {
		const struct kernel_fault *f = i < 0 ? NULL : &t->kernel->faults[i];

		buf_clear(&ours);
		kernel_render(t->kernel, dtype_name(t->problem.dtype), params, f, &ours, &line);
		if (ours.len == t->len && !memcmp(ours.data, t->source, t->len)) {
			t->fault = f;
			return true;
		}
	}
	return false;
}

static void take_message(struct row *r, const struct episode *e, const struct message *m,
                         const char *episode)
{
	static struct buf source;
	struct taken t = { .simulated = status_of(e, m->candidate) };
	int64_t params[KERNEL_MAX_PARAMS];
	const char *text, *what;
	size_t n;
	bool ours = false;
	json *root, *map;

	set_problem(&t, &e->task);
	if (!lab_wants_variant(lab, m->variant))
		return;
	text = message_source(r, m, &n);
	buf_clear(&source);
	buf_add(&source, text, n);
	t.source = source.data;
	t.len = source.len;
	t.kernel = kernel_find(t.problem.op->name, t.problem.impl == IMPL_TRITON, m->variant);
	if (t.kernel && bind_params(t.kernel, &m->params, params, &what))
		ours = recognise(&t, params);
	if (!ours)
		t.kernel = NULL;
	root = json_new_object();
	json_add_str(root, "episode_id", episode);
	json_add_str(root, "candidate", m->candidate);
	problem_write(root, &e->task);
	json_add_str(root, "variant", m->variant);
	map = json_add_object(root, "params");
	for (int i = 0; i < m->params.n; i++)
		json_add_int(map, m->params.key[i], m->params.value[i]);
	json_add_str(root, "fault", t.fault ? t.fault->name : NULL);
	json_add_str(root, "source", ours ? NULL : t.source);
	json_add_str(root, "simulated", t.simulated == WORD_COUNT ? NULL : word_name(t.simulated));
	add(r, &t, root);
}

void candidates_take_episode(struct row *r)
{
	static struct episode e;
	static struct message messages[EP_MAX_MESSAGES];
	struct taken t = { 0 };
	const json *id;

	e.messages = messages;
	episode_read(r, &e, NULL);
	set_problem(&t, &e.task);
	id = json_get(r->root, "episode_id");
	for (int i = 0; i < e.n_messages; i++) {
		if (messages[i].kind != KIND_CANDIDATE || skipped(&t))
			continue;
		take_message(r, &e, &messages[i], json_is_string(id) ? json_str(id) : NULL);
	}
}

/* --- the end ------------------------------------------------------------------- */

/* Simulated status down, measured status across: only what occurs. */
static void print_agreement(void)
{
	static struct buf text;
	int64_t all = 0, same = 0;
	bool across[WORD_COUNT] = { false };

	for (int s = 0; s < WORD_COUNT; s++) {
		for (int m = 0; m < WORD_COUNT; m++) {
			all += agreement[s][m];
			same += s == m ? agreement[s][m] : 0;
			across[m] |= agreement[s][m] > 0;
		}
	}
	if (!all || opt_quiet)
		return;
	buf_clear(&text);
	buf_printf(&text, "%-18s", "simulated");
	for (int m = 0; m < WORD_COUNT; m++) {
		if (across[m])
			buf_printf(&text, " %16s", word_name((enum word)m));
	}
	buf_str(&text, "  (measured)\n");
	for (int s = 0; s < WORD_COUNT; s++) {
		int64_t row = 0;

		for (int m = 0; m < WORD_COUNT; m++)
			row += agreement[s][m];
		if (!row)
			continue;
		buf_printf(&text, "%-18s", word_name((enum word)s));
		for (int m = 0; m < WORD_COUNT; m++) {
			if (across[m])
				buf_printf(&text, " %16lld", (long long)agreement[s][m]);
		}
		buf_char(&text, '\n');
	}
	buf_printf(&text, "%lld of %lld agree\n", (long long)same, (long long)all);
	fprintf(stderr, "%s", text.data);
}

void candidates_before_end(void)
{
	flush_window();
}

int candidates_finish(void)
{
	flush_window();
	print_agreement();
	if (foreign)
		warn("%lld candidates of other GPUs than %s left out", (long long)foreign,
		     lab->gpu->name);
	if (known)
		warn("%lld candidates were done before", (long long)known);
	if (schedule_late())
		warn("out of time: go on with --done");
	return impossible ? EX_ROW : EX_DONE;
}

/*
 * read.c - rows into structs.
 *
 * One walker reads any object that schema.def describes. Rows come in printed
 * order, so it compares each key with the next member before it searches.
 */
#include "episode/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "episode/schema.h"

/* A place in the row, as a chain up to the root; a path is printed from it
 * only when something is wrong. */
struct place {
	const struct place *up;
	const char *key; /* NULL: an array's item */
	int index;
};

struct reading {
	const struct row *r;
	const struct read_faults *faults;
	int said;
};

/* ---- faults ---- */

static void path_print(const struct place *at, char *out, size_t cap)
{
	size_t n;

	if (!at) {
		out[0] = '\0';
		return;
	}
	path_print(at->up, out, cap);
	n = strlen(out);
	if (at->key)
		snprintf(out + n, cap - n, "%s%s", n ? "." : "", at->key);
	else
		snprintf(out + n, cap - n, "[%d]", at->index);
}

static void fault(struct reading *rd, enum read_fault kind, const struct place *at, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

/* "missing field 'PATH'", "unknown field 'PATH'" or "field 'PATH' WHAT". */
static void fault(struct reading *rd, enum read_fault kind, const struct place *at, const char *fmt,
                  ...)
{
	char path[160], what[200];
	va_list ap;

	path_print(at, path, sizeof path);
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	rd->said++;
	if (rd->faults)
		rd->faults->say(rd->faults->arg, kind, path, what);
	else if (kind == READ_MISSING)
		row_fail(rd->r, "missing field '%s'", path);
	else
		row_fail(rd->r, "field '%s' %s", path, what);
}

/* ---- values ---- */

static void read_value(struct reading *rd, const struct place *at, json *v, enum field_type type,
                       void *to);

/* Members of obj from *next on, as the fields say. `to` may be NULL: types are
 * checked and nothing is kept. */
static void read_fields(struct reading *rd, const struct place *up, json *obj, json **next,
                        const struct field *f, int n, void *to)
{
	for (int i = 0; i < n; i++) {
		struct place at = { up, f[i].key, 0 };
		json *v = *next;

		if (!v || strcmp(json_key(v), f[i].key)) {
			v = json_get_mut(obj, f[i].key);
			if (!v) {
				fault(rd, READ_MISSING, &at, "is missing");
				continue;
			}
		}
		*next = json_next(v);
		read_value(rd, &at, v, f[i].type, to ? (char *)to + f[i].offset : NULL);
	}
}

/* Position of the key among the fields of a, then those of b; -1 if it is none
 * of them. `guess` is looked at first. */
static int key_position(const char *key, const struct field *a, int na, const struct field *b,
                        int nb, int guess)
{
	if (guess < na + nb && !strcmp(key, guess < na ? a[guess].key : b[guess - na].key))
		return guess;
	for (int i = 0; i < na + nb; i++)
		if (!strcmp(key, i < na ? a[i].key : b[i - na].key))
			return i;
	return -1;
}

/* When collecting: unknown keys, and the first key out of order. The fields are
 * those of a, then those of b. */
static void check_keys(struct reading *rd, const struct place *up, const json *obj,
                       const struct field *a, int na, const struct field *b, int nb)
{
	int last = -1;
	bool ordered = true;

	if (!rd->faults)
		return;
	for (const json *c = json_first(obj); c; c = json_next(c)) {
		struct place at = { up, json_key(c), 0 };
		int position = key_position(at.key, a, na, b, nb, last + 1);

		if (position < 0) {
			fault(rd, READ_UNKNOWN_KEY, &at, "is unknown");
		} else if (position < last && ordered) {
			fault(rd, READ_KEY_ORDER, &at, "stands out of order");
			ordered = false;
		} else if (position > last) {
			last = position;
		}
	}
}

static void read_object(struct reading *rd, const struct place *at, json *obj, enum field_type part,
                        void *to)
{
	int n;
	const struct field *f = schema_part(part, &n);
	json *next;

	if (!json_is_object(obj)) {
		fault(rd, READ_TYPE, at, "is no object");
		return;
	}
	next = json_first(obj);
	read_fields(rd, at, obj, &next, f, n, to);
	check_keys(rd, at, obj, f, n, NULL, 0);
}

static int read_array(struct reading *rd, const struct place *at, json *v, enum field_type part,
                      void *to, size_t size, int max)
{
	int n = 0;

	if (!json_is_array(v)) {
		fault(rd, READ_TYPE, at, "is no array");
		return 0;
	}
	for (json *c = json_first(v); c; c = json_next(c), n++) {
		struct place item = { at, NULL, n };

		if (n == max) {
			fault(rd, READ_VALUE, at, "has more than %d items", max);
			return n;
		}
		read_object(rd, &item, c, part, to ? (char *)to + (size_t)n * size : NULL);
	}
	return n;
}

static void read_map(struct reading *rd, const struct place *at, json *v, struct map *m)
{
	struct map sink;

	if (!m)
		m = &sink;
	m->n = 0;
	if (!json_is_object(v)) {
		fault(rd, READ_TYPE, at, "is no object");
		return;
	}
	for (const json *c = json_first(v); c; c = json_next(c)) {
		struct place item = { at, json_key(c), 0 };

		if (m->n == EP_MAX_KEYS) {
			fault(rd, READ_VALUE, at, "has more than %d keys", EP_MAX_KEYS);
			return;
		}
		if (!json_is_int(c)) {
			fault(rd, READ_TYPE, &item, "is no integer");
			continue;
		}
		m->key[m->n] = item.key;
		m->value[m->n++] = json_int(c);
	}
}

static void read_region(struct reading *rd, const struct place *at, json *v, struct region *g)
{
	struct region sink;

	if (!g)
		g = &sink;
	g->n = 0;
	if (!json_is_object(v)) {
		fault(rd, READ_TYPE, at, "is no object");
		return;
	}
	for (const json *c = json_first(v); c; c = json_next(c)) {
		struct place item = { at, json_key(c), 0 };
		int n = 0;

		if (g->n == EP_MAX_KEYS) {
			fault(rd, READ_VALUE, at, "has more than %d keys", EP_MAX_KEYS);
			return;
		}
		if (!json_is_array(c)) {
			fault(rd, READ_TYPE, &item, "is no array");
			continue;
		}
		for (const json *x = json_first(c); x; x = json_next(x), n++) {
			struct place value = { &item, NULL, n };

			if (n == EP_MAX_VALUES) {
				fault(rd, READ_VALUE, &item, "has more than %d items",
				      EP_MAX_VALUES);
				break;
			}
			if (json_is_int(x))
				g->value[g->n][n] = json_int(x);
			else
				fault(rd, READ_TYPE, &value, "is no integer");
		}
		g->key[g->n] = item.key;
		g->count[g->n++] = n;
	}
}

static void read_string(struct reading *rd, const struct place *at, const json *v, bool null_ok,
                        const char **to)
{
	const char *s = NULL;

	if (json_is_string(v))
		s = json_str(v);
	else if (!null_ok || !json_is_null(v))
		fault(rd, READ_TYPE, at, "is no string%s", null_ok ? " or null" : "");
	if (to)
		*to = s;
}

static void read_integer(struct reading *rd, const struct place *at, const json *v, bool null_ok,
                         int64_t *to)
{
	int64_t x = EP_NULL_INT;

	if (json_is_int(v))
		x = json_int(v);
	else if (!null_ok || !json_is_null(v))
		fault(rd, READ_TYPE, at, "is no integer%s", null_ok ? " or null" : "");
	if (to)
		*to = x;
}

static void read_number(struct reading *rd, const struct place *at, const json *v, bool null_ok,
                        double *to)
{
	double x = NAN;

	if (json_is_number(v))
		x = json_num(v);
	else if (!null_ok || !json_is_null(v))
		fault(rd, READ_TYPE, at, "is no number%s", null_ok ? " or null" : "");
	if (to)
		*to = x;
}

/* A time is a positive number, and one of this world: ratios stay finite. */
static void read_time(struct reading *rd, const struct place *at, const json *v, bool null_ok,
                      double *to)
{
	read_number(rd, at, v, null_ok, to);
	if (!json_is_number(v))
		return;
	if (!(json_num(v) > 0))
		fault(rd, READ_VALUE, at, "is not positive");
	else if (!(json_num(v) > 1e-9 && json_num(v) < 1e9))
		fault(rd, READ_VALUE, at, "is out of range");
}

static void read_kind(struct reading *rd, const struct place *at, const json *v, enum kind *to)
{
	int k = json_is_string(v) ? kind_from_name(json_str(v)) : -1;

	if (!json_is_string(v))
		fault(rd, READ_TYPE, at, "is no string");
	else if (k < 0)
		fault(rd, READ_VALUE, at, "is no kind of message: '%s'", json_str(v));
	if (to && k >= 0)
		*to = (enum kind)k;
}

static void read_value(struct reading *rd, const struct place *at, json *v, enum field_type type,
                       void *to)
{
	switch (type) {
	case FT_STR:
	case FT_NSTR:
	case FT_NTEXT:
		read_string(rd, at, v, type != FT_STR, to);
		break;
	case FT_TEXT: /* perhaps a span: fetched from the node when asked for */
	case FT_SOURCE:
		read_string(rd, at, v, false, NULL);
		break;
	case FT_INT:
	case FT_NINT:
		read_integer(rd, at, v, type == FT_NINT, to);
		break;
	case FT_NUM:
	case FT_NNUM:
		read_number(rd, at, v, type == FT_NNUM, to);
		break;
	case FT_TIME:
	case FT_NTIME:
		read_time(rd, at, v, type == FT_NTIME, to);
		break;
	case FT_NBOOL:
		if (!json_is_bool(v) && !json_is_null(v))
			fault(rd, READ_TYPE, at, "is no boolean or null");
		if (to)
			*(int *)to = json_is_bool(v) ? json_is_true(v) : -1;
		break;
	case FT_KINDNAME:
		read_kind(rd, at, v, to);
		break;
	case FT_MAP:
		read_map(rd, at, v, to);
		break;
	case FT_REGION:
		read_region(rd, at, v, to);
		break;
	case FT_VERIFY:
		if (to)
			((struct verify *)to)->present = !json_is_null(v);
		if (!json_is_null(v))
			read_object(rd, at, v, type, to);
		break;
	case FT_BENCH:
		if (to)
			((struct bench *)to)->present = !json_is_null(v);
		if (!json_is_null(v))
			read_object(rd, at, v, type, to);
		break;
	case FT_BUDGET:
	case FT_COMPILE:
	case FT_TASK:
	case FT_TOLERANCE:
	case FT_GPU_FACTS:
		read_object(rd, at, v, type, to);
		break;
	default: /* arrays of objects: their owners read them (the count is theirs) */
		break;
	}
}

/* ---- messages ---- */

static void read_message(struct reading *rd, const struct place *at, json *v, struct message *m)
{
	int ne, n;
	const struct field *envelope = schema_part(FT_MESSAGES, &ne), *f;
	json *next, *list;
	int said = rd->said;

	message_init(m, KIND_PLAN);
	m->node = v;
	if (!json_is_object(v)) {
		fault(rd, READ_TYPE, at, "is no object");
		return;
	}
	next = json_first(v);
	read_fields(rd, at, v, &next, envelope, ne, m);
	if (rd->said > said)
		return; /* its kind may be unknown: the rest would be noise */
	f = schema_kind(m->kind, &n);
	read_fields(rd, at, v, &next, f, n, m);
	check_keys(rd, at, v, envelope, ne, f, n);
	if (m->kind == KIND_PLAN && (list = json_get_mut(v, "assignments"))) {
		struct place item = { at, "assignments", 0 };

		m->n_assignments = read_array(rd, &item, list, FT_ASSIGNMENTS, m->assignments,
		                              sizeof m->assignments[0], EP_MAX_AGENTS);
	} else if (m->kind == KIND_LEADERBOARD && (list = json_get_mut(v, "entries"))) {
		struct place item = { at, "entries", 0 };

		m->n_entries = read_array(rd, &item, list, FT_ENTRIES, m->entries,
		                          sizeof m->entries[0], EP_MAX_AGENTS);
	}
}

static void read_messages(struct reading *rd, json *list, struct episode *e)
{
	struct place at = { NULL, "messages", 0 };

	e->n_messages = 0;
	if (!json_is_array(list)) {
		fault(rd, READ_TYPE, &at, "is no array");
		return;
	}
	for (json *c = json_first(list); c; c = json_next(c)) {
		struct place item = { &at, NULL, e->n_messages };

		if (e->n_messages == EP_MAX_MESSAGES) {
			fault(rd, READ_VALUE, &at, "has more than %d items", EP_MAX_MESSAGES);
			return;
		}
		read_message(rd, &item, c, &e->messages[e->n_messages++]);
	}
}

/* ---- the task ---- */

static const char *need_string(struct reading *rd, const struct place *at)
{
	const json *v = json_get(rd->r->root, at->key);
	const char *s = NULL;

	if (!v)
		fault(rd, READ_MISSING, at, "is missing");
	else
		read_string(rd, at, v, false, &s);
	return s;
}

static int64_t need_int(struct reading *rd, const char *key, int64_t min, int64_t max)
{
	struct place at = { NULL, key, 0 };
	const json *v = json_get(rd->r->root, key);

	if (!v)
		fault(rd, READ_MISSING, &at, "is missing");
	else if (!json_is_int(v))
		fault(rd, READ_TYPE, &at, "is no integer");
	else if (json_int(v) < min || json_int(v) > max)
		fault(rd, READ_VALUE, &at, "is not in %lld to %lld", (long long)min,
		      (long long)max);
	else
		return json_int(v);
	return min;
}

static void read_shape(struct reading *rd, struct task *t)
{
	struct place at = { NULL, "shape", 0 };
	json *v = json_get_mut(rd->r->root, "shape");
	const struct op *op = t->op;
	struct map m;
	const char *why;
	int said = rd->said;
	bool seen[OP_MAX_AXES] = { false };

	if (!v) {
		fault(rd, READ_MISSING, &at, "is missing");
		return;
	}
	read_map(rd, &at, v, &m);
	if (rd->said > said)
		return;
	for (int i = 0; i < m.n; i++) {
		struct place item = { &at, m.key[i], 0 };
		int a = op_axis(op, m.key[i]);

		if (a < 0) {
			fault(rd, READ_VALUE, &item, "is no axis of %s", op->name);
			continue;
		}
		if (rd->faults && a != i)
			fault(rd, READ_KEY_ORDER, &item, "stands out of order");
		seen[a] = true;
		t->shape[a] = m.value[i];
	}
	for (int a = 0; a < op->n_axes; a++) {
		struct place item = { &at, op->axes[a], 0 };

		if (!seen[a])
			fault(rd, READ_MISSING, &item, "is missing");
	}
	if (rd->said > said)
		return;
	why = op_illegal(op, t->shape, t->dtype);
	if (why)
		fault(rd, READ_VALUE, &at, "is impossible for %s: %s", op->name, why);
	else if ((double)op->footprint(t->shape, t->dtype) > 0.6e9 * t->gpu->dram_gb)
		fault(rd, READ_VALUE, &at, "takes more than 60 %% of the memory of %s",
		      t->gpu->name);
}

/* op, impl, gpu, arch, dtype, shape: what every row that names a problem has. */
static void read_problem(struct reading *rd, struct task *t)
{
	static const struct place op_at = { NULL, "op", 0 }, impl_at = { NULL, "impl", 0 },
				  gpu_at = { NULL, "gpu", 0 }, arch_at = { NULL, "arch", 0 },
				  dtype_at = { NULL, "dtype", 0 };
	int said = rd->said, impl, dtype;
	const char *op = need_string(rd, &op_at), *im = need_string(rd, &impl_at);
	const char *gpu = need_string(rd, &gpu_at), *arch = need_string(rd, &arch_at);
	const char *dt = need_string(rd, &dtype_at);

	if (rd->said > said)
		return;
	t->op = op_find(op);
	t->gpu = gpu_find(gpu);
	impl = impl_from_name(im);
	dtype = dtype_from_name(dt);
	if (!t->op)
		fault(rd, READ_VALUE, &op_at, "is no known op: '%s'", op);
	if (!t->gpu)
		fault(rd, READ_VALUE, &gpu_at, "is no known gpu: '%s'", gpu);
	else if (strcmp(arch, t->gpu->arch))
		fault(rd, READ_VALUE, &arch_at, "is not the %s of %s: '%s'", t->gpu->arch,
		      t->gpu->name, arch);
	if (impl < 0 || (t->op && !(t->op->impls & 1u << impl)))
		fault(rd, READ_VALUE, &impl_at, "is no impl of %s: '%s'", op, im);
	if (dtype < 0 || (t->op && !op_has_dtype(t->op, (enum dtype)dtype)))
		fault(rd, READ_VALUE, &dtype_at, "is no dtype of %s: '%s'", op, dt);
	if (rd->said > said)
		return;
	t->impl = (enum impl)impl;
	t->dtype = (enum dtype)dtype;
	read_shape(rd, t);
}

static void read_task(struct reading *rd, struct task *t)
{
	static const struct place id_at = { NULL, "task_id", 0 }, seed_at = { NULL, "seed", 0 },
				  split_at = { NULL, "split", 0 };
	const char *seed;

	t->task_id = need_string(rd, &id_at);
	t->split = need_string(rd, &split_at);
	t->index = need_int(rd, "index", 0, INT64_C(1000000000000));
	seed = need_string(rd, &seed_at);
	if (seed && hash_parse(seed, &t->seed))
		fault(rd, READ_VALUE, &seed_at, "is not 16 hexadecimal digits: '%s'", seed);
	if (t->split && word_find(SET_SPLIT, t->split) < 0)
		fault(rd, READ_VALUE, &split_at, "is no split: '%s'", t->split);
	read_problem(rd, t);
}

void task_read(const struct row *r, struct task *t)
{
	struct reading rd = { r, NULL, 0 };

	read_task(&rd, t);
}

int holdout_read(const struct row *r, struct task *t, const struct read_faults *faults)
{
	struct reading rd = { r, faults, 0 };

	read_object(&rd, NULL, r->root, FT_HOLDOUT, NULL);
	if (!rd.said)
		read_task(&rd, t);
	return rd.said;
}

void candidate_read(const struct row *r, struct candidate_row *c)
{
	static const struct place variant_at = { NULL, "variant", 0 },
				  params_at = { NULL, "params", 0 },
				  fault_at = { NULL, "fault", 0 },
				  source_at = { NULL, "source", 0 };
	struct reading rd = { r, NULL, 0 };
	json *params = json_get_mut(r->root, "params");
	const json *name = json_get(r->root, "fault"), *source = json_get(r->root, "source");

	memset(&c->task, 0, sizeof c->task);
	read_problem(&rd, &c->task);
	c->variant = need_string(&rd, &variant_at);
	if (!params)
		fault(&rd, READ_MISSING, &params_at, "is missing");
	if (!name)
		fault(&rd, READ_MISSING, &fault_at, "is missing");
	if (!source)
		fault(&rd, READ_MISSING, &source_at, "is missing");
	read_map(&rd, &params_at, params, &c->params);
	read_string(&rd, &fault_at, name, true, &c->fault);
	read_string(&rd, &source_at, source, true, NULL);
	c->source = json_is_null(source) ? NULL : source;
}

/* ---- the plan ---- */

bool plan_present(const struct row *r)
{
	return json_get(r->root, "scenario");
}

static void read_scenario(struct reading *rd, struct episode *e, int agents)
{
	static const struct place name_at = { NULL, "scenario", 0 }, n_at = { NULL, "n_agents", 0 };
	int min, max;

	e->scenario = need_string(rd, &name_at);
	e->n_agents = (int)need_int(rd, "n_agents", 1, EP_MAX_AGENTS);
	if (!e->scenario)
		return;
	if (!scenario_agents(e->scenario, &min, &max))
		fault(rd, READ_VALUE, &name_at, "is no known scenario: '%s'", e->scenario);
	else if (e->n_agents < min || e->n_agents > max)
		fault(rd, READ_VALUE, &n_at, "is not in %d to %d, the range of %s", min, max,
		      e->scenario);
	if (e->n_agents != agents)
		fault(rd, READ_VALUE, &n_at, "is not the number of agents, %d", agents);
}

void plan_read(const struct row *r, struct episode *e)
{
	static const struct place agents_at = { NULL, "agents", 0 },
				  assignments_at = { NULL, "assignments", 0 };
	struct reading rd = { r, NULL, 0 };
	int nf, n = 0;
	const struct field *f = schema_part(FT_AGENTS, &nf);
	json *agents = row_array(r, r->root, "", "agents");
	json *assignments = row_array(r, r->root, "", "assignments");

	for (json *c = json_first(agents); c; c = json_next(c), n++) {
		struct place at = { &agents_at, NULL, n };
		json *next;

		if (n == EP_MAX_AGENTS)
			fault(&rd, READ_VALUE, &agents_at, "has more than %d items", n);
		if (!json_is_object(c))
			fault(&rd, READ_TYPE, &at, "is no object");
		next = json_first(c);
		read_fields(&rd, &at, c, &next, f, 3, &e->agents[n]); /* id, role, skill */
		e->agents[n].tries = e->agents[n].kept = EP_NULL_INT;
		e->agents[n].best_ms = e->agents[n].ret = NAN;
	}
	read_scenario(&rd, e, n);
	e->n_assignments = read_array(&rd, &assignments_at, assignments, FT_ASSIGNMENTS,
	                              e->assignments, sizeof e->assignments[0], EP_MAX_AGENTS);
}

/* ---- the episode ---- */

/* Members whose type has been checked; null or absent is NAN or NULL. */
static double number_of(const json *root, const char *key)
{
	const json *v = json_get(root, key);

	return json_is_number(v) ? json_num(v) : NAN;
}

static const char *string_of(const json *root, const char *key)
{
	const json *v = json_get(root, key);

	return json_is_string(v) ? json_str(v) : NULL;
}

int episode_read(const struct row *r, struct episode *e, const struct read_faults *faults)
{
	struct reading rd = { r, faults, 0 };
	struct place agents_at = { NULL, "agents", 0 };
	json *agents = json_get_mut(r->root, "agents");
	json *messages = json_get_mut(r->root, "messages");
	const json *elapsed = json_get(r->root, "elapsed_s");
	bool whole;
	int n_agents = 0;

	/* Every key and type of the row itself; then what structs keep. */
	read_object(&rd, NULL, r->root, FT_EPISODE, NULL);
	whole = !rd.said;
	if (agents)
		n_agents = read_array(&rd, &agents_at, agents, FT_AGENTS, e->agents,
		                      sizeof e->agents[0], EP_MAX_AGENTS);
	if (whole) {
		read_task(&rd, &e->task);
		read_scenario(&rd, e, n_agents);
	}
	e->n_assignments = 0;
	e->baseline_ms = number_of(r->root, "baseline_ms");
	e->best_ms = number_of(r->root, "best_ms");
	e->speedup = number_of(r->root, "speedup");
	e->ret = number_of(r->root, "return");
	e->elapsed_s = json_is_int(elapsed) ? json_int(elapsed) : EP_NULL_INT;
	e->scheme = string_of(r->root, "scheme");
	e->env = string_of(r->root, "env");
	if (messages)
		read_messages(&rd, messages, e);
	return rd.said;
}

static const char *text_of(const struct row *r, const struct message *m, enum field_type type,
                           size_t *len)
{
	int n;
	const struct field *f = schema_kind(m->kind, &n);

	for (int i = 0; i < n; i++)
		if (f[i].type == type)
			return row_text(r, json_get(m->node, f[i].key), len);
	return NULL;
}

const char *message_text(const struct row *r, const struct message *m, size_t *len)
{
	return text_of(r, m, FT_TEXT, len);
}

const char *message_source(const struct row *r, const struct message *m, size_t *len)
{
	return text_of(r, m, FT_SOURCE, len);
}

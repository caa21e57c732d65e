/* write.c - structs into rows. */
#include "episode/write.h"

#include <inttypes.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/version.h"
#include "episode/schema.h"

static json *number(double x)
{
	return isnan(x) ? json_new_null() : json_new_num(x);
}

static json *integer(int64_t x)
{
	return x == EP_NULL_INT ? json_new_null() : json_new_int(x);
}

static json *string(const char *s)
{
	return s ? json_new_str(s) : json_new_null();
}

static json *map(const struct map *m)
{
	json *j = json_new_object();

	for (int i = 0; i < m->n; i++)
		json_add_int(j, m->key[i], m->value[i]);
	return j;
}

static json *region(const struct region *g)
{
	json *j = json_new_object();

	for (int i = 0; i < g->n; i++) {
		json *values = json_add_array(j, g->key[i]);

		for (int k = 0; k < g->count[i]; k++)
			json_push(values, json_new_int(g->value[i][k]));
	}
	return j;
}

static json *value(struct row *r, const struct message *m, enum field_type type, const void *p);

/* One of schema.def's fixed objects. */
static json *part(struct row *r, enum field_type type, const void *from, int first_n)
{
	int n;
	const struct field *f = schema_part(type, &n);
	json *j = json_new_object();

	for (int i = 0; i < n && i < first_n; i++)
		json_add(j, f[i].key, value(r, NULL, f[i].type, (const char *)from + f[i].offset));
	return j;
}

static json *parts(struct row *r, enum field_type type, const void *from, size_t size, int count,
                   int first_n)
{
	json *j = json_new_array();

	for (int i = 0; i < count; i++)
		json_push(j, part(r, type, (const char *)from + (size_t)i * size, first_n));
	return j;
}

/* The value at p; m is the message that it belongs to, for what needs more
 * than p. */
static json *value(struct row *r, const struct message *m, enum field_type type, const void *p)
{
	const char *s;

	switch (type) {
	case FT_STR:
	case FT_NSTR:
		return string(*(const char *const *)p);
	case FT_TEXT:
	case FT_NTEXT:
		s = *(const char *const *)p;
		return s ? row_new_text(r, s, strlen(s)) : json_new_null();
	case FT_SOURCE:
		s = *(const char *const *)p;
		if (!s)
			bug("a source is null");
		return row_new_text(r, s, m && m->source_len ? (size_t)m->source_len : strlen(s));
	case FT_INT:
	case FT_NINT:
		return integer(*(const int64_t *)p);
	case FT_NUM:
	case FT_NNUM:
	case FT_TIME:
	case FT_NTIME:
		return number(*(const double *)p);
	case FT_NBOOL:
		return *(const int *)p < 0 ? json_new_null() : json_new_bool(*(const int *)p);
	case FT_KINDNAME:
		return json_new_str(kind_name(*(const enum kind *)p));
	case FT_MAP:
		return map(p);
	case FT_REGION:
		return region(p);
	case FT_VERIFY:
		return ((const struct verify *)p)->present ? part(r, type, p, INT32_MAX)
		                                           : json_new_null();
	case FT_BENCH:
		return ((const struct bench *)p)->present ? part(r, type, p, INT32_MAX)
		                                          : json_new_null();
	case FT_BUDGET:
	case FT_COMPILE:
		return part(r, type, p, INT32_MAX);
	case FT_ASSIGNMENTS:
		return parts(r, type, p, sizeof(struct assignment), m->n_assignments, INT32_MAX);
	case FT_ENTRIES:
		return parts(r, type, p, sizeof(struct entry), m->n_entries, INT32_MAX);
	default:
		bug("no writer for field type %d", (int)type);
	}
}

json *message_write(struct row *r, const struct message *m)
{
	int n;
	const struct field *f = schema_part(FT_MESSAGES, &n);
	json *j = json_new_object();

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < n; i++)
			json_add(j, f[i].key,
			         value(r, m, f[i].type, (const char *)m + f[i].offset));
		f = schema_kind(m->kind, &n);
	}
	return j;
}

void problem_write(json *root, const struct task *t)
{
	json *shape;

	json_add_str(root, "op", t->op->name);
	json_add_str(root, "impl", impl_name(t->impl));
	json_add_str(root, "gpu", t->gpu->name);
	json_add_str(root, "arch", t->gpu->arch);
	json_add_str(root, "dtype", dtype_name(t->dtype));
	shape = json_add_object(root, "shape");
	for (int a = 0; a < t->op->n_axes; a++)
		json_add_int(shape, t->op->axes[a], t->shape[a]);
}

static void seed_write(json *root, uint64_t seed)
{
	char hex[17];

	hash_hex(seed, hex);
	json_add_str(root, "seed", hex);
}

void task_write(json *root, const struct task *t)
{
	json_add_str(root, "task_id", t->task_id);
	json_add_int(root, "index", t->index);
	seed_write(root, t->seed);
	json_add_str(root, "split", t->split);
	problem_write(root, t);
}

void plan_write(struct row *r, const struct episode *e)
{
	json_set(r->root, "scenario", json_new_str(e->scenario));
	json_set(r->root, "n_agents", json_new_int(e->n_agents));
	json_set(r->root, "agents",
	         parts(r, FT_AGENTS, e->agents, sizeof e->agents[0], e->n_agents, 3));
	json_set(r->root, "assignments",
	         parts(r, FT_ASSIGNMENTS, e->assignments, sizeof e->assignments[0],
	               e->n_assignments, INT32_MAX));
}

void result_write(struct row *r, const struct message *m, const char *env, json *provenance)
{
	json_set(r->root, "status", string(m->status));
	json_set(r->root, "compile", part(r, FT_COMPILE, &m->compile, INT32_MAX));
	json_set(r->root, "verify", value(r, m, FT_VERIFY, &m->verify));
	json_set(r->root, "bench", value(r, m, FT_BENCH, &m->bench));
	json_set(r->root, "env", json_new_str(env));
	json_set(r->root, "provenance", provenance ? provenance : json_new_null());
}

void episode_id(const struct episode *e, struct buf *out)
{
	const struct task *t = &e->task;

	buf_printf(out, "%s_%s_", t->op->name, t->gpu->name);
	for (int a = 0; a < t->op->n_axes; a++)
		buf_printf(out, "%s%s=%" PRId64, a ? "," : "", t->op->axes[a], t->shape[a]);
	buf_printf(out, "_%s_%" PRId64, e->scenario, t->index);
}

/* Whether a stage before this one has put the key into the task row. */
static bool task_row_key(const char *key)
{
	static const char *const more[] = { "assignments", "scenario", "n_agents", "agents" };
	int n;
	const struct field *f = schema_part(FT_HOLDOUT, &n);

	for (int i = 0; i < n; i++)
		if (!strcmp(key, f[i].key))
			return true;
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		if (!strcmp(key, more[i]))
			return true;
	return false;
}

json *episode_write(struct row *r, const struct episode *e, json *task)
{
	static struct buf id;
	json *j = json_new_object(), *messages;
	const json *c = json_first(r->root);
	char hex[17];

	for (; c && !task_row_key(json_key(c)); c = json_next(c))
		json_add(j, json_key(c), json_copy(c));
	buf_clear(&id);
	episode_id(e, &id);
	json_add_str(j, "episode_id", id.data);
	json_add_str(j, "scenario", e->scenario);
	json_add_int(j, "n_agents", e->n_agents);
	problem_write(j, &e->task);
	json_add_num(j, "baseline_ms", e->baseline_ms);
	json_add(j, "best_ms", number(e->best_ms));
	json_add(j, "speedup", number(e->speedup));
	json_add(j, "elapsed_s", integer(e->elapsed_s));
	json_add(j, "agents",
	         parts(r, FT_AGENTS, e->agents, sizeof e->agents[0], e->n_agents, INT32_MAX));
	json_add_int(j, "num_messages", e->n_messages);
	messages = json_add_array(j, "messages");
	for (int i = 0; i < e->n_messages; i++)
		json_push(messages, message_write(r, &e->messages[i]));
	json_add_int(j, "index", e->task.index);
	json_add_str(j, "task_id", e->task.task_id);
	hash_hex(e->task.seed, hex);
	json_add_str(j, "seed", hex);
	json_add_str(j, "split", e->task.split);
	json_add_str(j, "env", e->env);
	json_add_str(j, "version", KS_VERSION);
	json_add_str(j, "scheme", e->scheme);
	json_add(j, "return", number(e->ret));
	json_add(j, "task", task);
	for (; c; c = json_next(c))
		if (!task_row_key(json_key(c)))
			json_add(j, json_key(c), json_copy(c));
	return j;
}

/* ---- in place ---- */

/* Replaces the member's value only if it is another one: what is already
 * right is neither allocated nor touched. */
static void put_number(json *obj, const char *key, double x)
{
	json *v = json_get_mut(obj, key);

	if (json_is_number(v) && !isnan(x))
		json_set_num(v, x);
	else if (!json_is_null(v) || !isnan(x))
		json_set(obj, key, number(x));
}

static void put_integer(json *obj, const char *key, int64_t x)
{
	put_number(obj, key, x == EP_NULL_INT ? NAN : (double)x);
}

static void put_string(json *obj, const char *key, const char *s)
{
	const json *v = json_get(obj, key);

	if (!json_is_string(v) || !s || strcmp(json_str(v), s))
		json_set(obj, key, string(s));
}

static void put_result(const struct message *m)
{
	const json *kept = json_get(m->node, "kept");

	put_string(m->node, "status", m->status);
	put_number(m->node, "prev_best_ms", m->prev_best_ms);
	if (m->kept < 0 ? !json_is_null(kept)
	                : !json_is_bool(kept) || json_is_true(kept) != (m->kept == 1))
		json_set(m->node, "kept", m->kept < 0 ? json_new_null() : json_new_bool(m->kept));
	put_number(m->node, "reward", m->reward);
}

void episode_write_back(struct row *r, const struct episode *e)
{
	json *c = json_first(json_get(r->root, "agents"));

	put_number(r->root, "best_ms", e->best_ms);
	put_number(r->root, "speedup", e->speedup);
	put_integer(r->root, "elapsed_s", e->elapsed_s);
	for (int i = 0; i < e->n_agents; i++, c = json_next(c)) {
		put_integer(c, "tries", e->agents[i].tries);
		put_integer(c, "kept", e->agents[i].kept);
		put_number(c, "best_ms", e->agents[i].best_ms);
		put_number(c, "return", e->agents[i].ret);
	}
	for (int i = 0; i < e->n_messages; i++) {
		const struct message *m = &e->messages[i];

		if (m->kind == KIND_RESULT) {
			put_result(m);
		} else if (m->kind == KIND_VERDICT) {
			put_number(m->node, "speedup", m->speedup);
			put_number(m->node, "reward", m->reward);
		}
	}
	put_string(r->root, "scheme", e->scheme);
	put_number(r->root, "return", e->ret);
}

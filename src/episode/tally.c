/*
 * tally.c - see tally.h. A count is an array of integers in `arrays`: that
 * table alone says what is written and merged.
 */
#include "episode/tally.h"

#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/version.h"
#include "episode/pay.h"
#include "episode/read.h"
#include "episode/schema.h"
#include "episode/sketch.h"
#include "kernels/kernel.h"

enum {
	MAX_OPS = 32,
	MAX_GPUS = 16,
	MAX_SCENARIOS = 8,
	MAX_VARIANTS = 16,
	N_OUTCOMES = OUTCOME_INFRA_ERROR - OUTCOME_OK + 1,
	ELAPSED_BINS = 24, /* of 900 s; the last holds all that is longer */
	REWARD_BINS = 42,  /* of 0.05 from -1 to 1; the outer ones hold the rest */
	SPEEDUP_BINS = 24, /* of 0.5 in log2; the last holds all that is more */
	SKILL_BINS = 10
};

/* Plain counts and sums. */
enum count {
	EPISODES,
	MESSAGES,
	AGENTS,
	CANDIDATES,
	TEXTS,
	WORDS_3,
	ELAPSED,
	IMPROVED_PAID,
	CLIPPED,
	WINNERS,
	CHANGED,
	UNIMPROVED,
	N_COUNTS
};

/* Sums for means and correlations, in millionths. Squares outgrow what a JSON
 * number holds exactly: two digits to the base 10^12 each. */
enum sum { RETURN, LOG, RETURN_2, LOG_2, RETURN_LOG, RETURN_AGENTS, AGENTS_2, N_SUMS };

static int64_t count[N_COUNTS], kinds[KIND_COUNT], elapsed[ELAPSED_BINS], rewards[REWARD_BINS],
	speedups[SPEEDUP_BINS];
static int64_t sums[N_SUMS][2];
static int64_t by_scenario[MAX_SCENARIOS][N_OUTCOMES], by_op[MAX_OPS][N_OUTCOMES];
static int64_t scenario_sum[MAX_SCENARIOS][5]; /* episodes, agents, messages, tries, return */
static int64_t op_episodes[MAX_OPS], op_candidates[MAX_OPS], gpu_episodes[MAX_GPUS];
static int64_t skill[SKILL_BINS][4];  /* agents, tries, kept, return */
static int64_t moves[TALLY_MOVES][2]; /* all, improved */
static int64_t wins[MAX_OPS][IMPL_COUNT][MAX_GPUS][MAX_VARIANTS];

/* clang-format off */
static const struct {
	const char *key;
	int64_t *value;
	int n;
} arrays[] = {
#define ARRAY(key, a) { key, (int64_t *)(a), (int)(sizeof(a) / sizeof(int64_t)) }
	ARRAY("count", count),
	ARRAY("sums", sums),
	ARRAY("kinds", kinds),
	ARRAY("elapsed", elapsed),
	ARRAY("rewards", rewards),
	ARRAY("speedups", speedups),
	ARRAY("by_scenario", by_scenario),
	ARRAY("by_op", by_op),
	ARRAY("scenario_sum", scenario_sum),
	ARRAY("op_episodes", op_episodes),
	ARRAY("op_candidates", op_candidates),
	ARRAY("gpu_episodes", gpu_episodes),
	ARRAY("skill", skill),
	ARRAY("moves", moves),
	ARRAY("wins", wins),
#undef ARRAY
};
/* clang-format on */

static struct sketch texts, trigrams, masked_trigrams, sources, masked_sources;

static const struct {
	const char *key;
	struct sketch *sketch;
} sketches[] = {
	{ "texts", &texts },
	{ "trigrams", &trigrams },
	{ "masked_trigrams", &masked_trigrams },
	{ "sources", &sources },
	{ "masked_sources", &masked_sources },
};

static struct buckets skeletons[KIND_COUNT];

#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* ---- indices ---- */

static int op_index(const struct op *op)
{
	int n;
	const struct op *const *list = op_list(&n);

	for (int i = 0; i < n && i < MAX_OPS; i++)
		if (list[i] == op)
			return i;
	bug("more than %d ops", MAX_OPS);
}

static int gpu_index(const struct gpu *g)
{
	int n, i = (int)(g - gpu_list(&n));

	if (i >= MAX_GPUS)
		bug("more than %d GPUs", MAX_GPUS);
	return i;
}

static int scenario_index(const char *name)
{
	for (int i = 0; i < MAX_SCENARIOS && scenario_name(i); i++)
		if (!strcmp(scenario_name(i), name))
			return i;
	bug("more than %d scenarios", MAX_SCENARIOS);
}

/* -1 for a variant that is none of ours. */
static int variant_index(const struct task *t, const char *variant)
{
	int n;
	const struct kernel *const *list = kernel_list(t->op->name, t->impl == IMPL_TRITON, &n);

	for (int i = 0; i < n && i < MAX_VARIANTS; i++)
		if (!strcmp(list[i]->variant, variant))
			return i;
	return -1;
}

/* |x| < 1e12. */
static int64_t millionths(double x)
{
	return (int64_t)floor(x * 1e6 + 0.5);
}

static const int64_t sum_base = INT64_C(1000000000000);

/* The low digit back into [0, base). */
static void sum_carry(int64_t sum[2])
{
	int64_t carry = sum[0] / sum_base - (sum[0] % sum_base < 0);

	sum[0] -= carry * sum_base;
	sum[1] += carry;
}

static void sum_add(enum sum which, double x)
{
	sums[which][0] += millionths(x);
	sum_carry(sums[which]);
}

static double sum_of(enum sum which)
{
	return (double)sums[which][1] * 1e6 + (double)sums[which][0] / 1e6;
}

static int bin(double x, double from, double width, int n)
{
	double b = floor((x - from) / width);

	return b < 0 ? 0 : b >= n ? n - 1 : (int)b;
}

/* ---- fingerprints ---- */

static inline uint64_t load(const char *p)
{
	const unsigned char *s = (const unsigned char *)p;

	/* Little-endian whatever the host; compilers make one load of it. */
	return (uint64_t)s[0] | (uint64_t)s[1] << 8 | (uint64_t)s[2] << 16 | (uint64_t)s[3] << 24 |
	       (uint64_t)s[4] << 32 | (uint64_t)s[5] << 40 | (uint64_t)s[6] << 48 |
	       (uint64_t)s[7] << 56;
}

/* A hash of long texts, for counting alone: four lanes that do not wait for
 * each other, since sources are most of what stats reads. */
static uint64_t fingerprint(const char *p, size_t n, uint64_t seed)
{
	uint64_t lane[4] = { seed, ~seed, n, ~(uint64_t)n };
	uint64_t h;

	for (; n >= 32; p += 32, n -= 32)
		for (int i = 0; i < 4; i++) {
			uint64_t x = (lane[i] ^ load(p + 8 * i)) * UINT64_C(0x9e3779b97f4a7c15);

			lane[i] = x << 29 | x >> 35;
		}
	h = hash_bytes(p, n, seed);
	for (int i = 0; i < 4; i++)
		h = rng_mix(h ^ lane[i]);
	return h;
}

/* ---- words ---- */

static bool is_digit(char c)
{
	return (unsigned char)(c - '0') <= 9;
}

/* No byte of the word is 0x30 to 0x3f, which is where the digits are. */
static inline bool no_digits(uint64_t w)
{
	uint64_t x = (w ^ UINT64_C(0x3030303030303030)) & UINT64_C(0xf0f0f0f0f0f0f0f0);

	return !((x - UINT64_C(0x0101010101010101)) & ~x & UINT64_C(0x8080808080808080));
}

/* Numbers become '#', so that what is left is the sentence's form: 0.41,
 * 5e-05, c012 (c#), a03 (a#), T=4096 (T=#). */
static void mask(const char *text, size_t len, struct buf *out)
{
	const char *p = text, *end = text + len;
	char *to;

	buf_clear(out);
	buf_reserve(out, len + 8);
	to = out->data;
	while (p < end) {
		for (; end - p >= 8 && no_digits(load(p)); p += 8, to += 8)
			memcpy(to, p, 8);
		while (p < end && !is_digit(*p) && (end - p < 8 || !no_digits(load(p))))
			*to++ = *p++;
		if (p == end || !is_digit(*p))
			continue;
		*to++ = '#';
		while (p < end && (is_digit(*p) || (*p == '.' && p + 1 < end && is_digit(p[1]))))
			p++;
		if (p + 2 < end && *p == 'e' && (p[1] == '-' || p[1] == '+') && is_digit(p[2]))
			for (p += 2; p < end && is_digit(*p); p++)
				;
	}
	*to = '\0';
	out->len = (size_t)(to - out->data);
}

/* Adds each run of three words; returns how many there were. */
static int64_t take_trigrams(const char *text, size_t len, struct sketch *s)
{
	const uint64_t k1 = UINT64_C(0x9e3779b97f4a7c15), k2 = UINT64_C(0xc2b2ae3d27d4eb4f);
	const char *p = text, *end = text + len;
	uint64_t last = 0, before = 0;
	int64_t words = 0;

	while (p < end) {
		const char *start;
		uint64_t word = UINT64_C(0xcbf29ce484222325);

		while (p < end && *p == ' ')
			p++;
		for (start = p; p < end && *p != ' '; p++)
			word = (word ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
		if (p == start)
			break;
		if (++words >= 3)
			sketch_add(s, rng_mix((before * k1 + last) * k2 + word), 1);
		before = last;
		last = word;
	}
	return words >= 3 ? words - 2 : 0;
}

static void take_text(const struct row *r, const struct message *m)
{
	static struct buf masked;
	size_t len;
	const char *text = message_text(r, m, &len);

	if (!text)
		return;
	count[TEXTS]++;
	sketch_add(&texts, hash_bytes(text, len, (uint64_t)m->kind), 1);
	count[WORDS_3] += take_trigrams(text, len, &trigrams);
	mask(text, len, &masked);
	take_trigrams(masked.data, masked.len, &masked_trigrams);
	buckets_add(&skeletons[m->kind], hash_bytes(masked.data, masked.len, 0));
}

/* The escaped bytes as they stand in the row do as well as the decoded ones:
 * there is one way to escape. The last byte of a masked source's hash is its
 * op, so that the sketch can tell the ops apart. Sources come back: what their
 * masked form hashes to is remembered. */
static void take_source(const struct row *r, const struct message *m, int op)
{
	static struct {
		uint64_t raw, masked;
	} memory[1 << 14];
	static struct buf masked;
	size_t len, at;
	const char *raw = row_raw(r, json_get(m->node, "source"), &len);
	uint64_t hash = fingerprint(raw, len, (uint64_t)op);

	sketch_add(&sources, hash, 1);
	at = hash >> 50;
	if (memory[at].raw != hash) {
		mask(raw, len, &masked);
		memory[at].raw = hash;
		memory[at].masked = fingerprint(masked.data, masked.len, 0);
		memory[at].masked = (memory[at].masked & ~UINT64_C(0xff)) | (uint64_t)op;
	}
	sketch_add(&masked_sources, memory[at].masked, 1);
}

/* ---- an episode ---- */

static void take_result(const struct message *m, int scenario, int op, double clip)
{
	int outcome = word_find(SET_OUTCOME, m->status);

	if (outcome < OUTCOME_OK)
		return;
	by_scenario[scenario][outcome - OUTCOME_OK]++;
	by_op[op][outcome - OUTCOME_OK]++;
	if (isnan(m->reward))
		return;
	/* Rewards lie on multiples of the bins' width: keep them off the edge. */
	rewards[bin(m->reward + 1e-9, -1.05, 0.05, REWARD_BINS)]++;
	if (outcome == OUTCOME_IMPROVED) {
		count[IMPROVED_PAID]++;
		count[CLIPPED] += m->reward >= clip;
	}
}

static void take_agents(const struct episode *e, int scenario)
{
	for (int a = 0; a < e->n_agents; a++) {
		const struct agent *g = &e->agents[a];
		int64_t *s = skill[bin(g->skill, 0, 0.1, SKILL_BINS)];

		scenario_sum[scenario][3] += g->tries;
		s[0]++;
		s[1] += g->tries;
		s[2] += g->kept;
		s[3] += millionths(g->ret);
	}
}

static void take_sums(const struct episode *e, int scenario)
{
	double log2 = num_log2(e->speedup), agents = e->n_agents;

	sum_add(RETURN, e->ret);
	sum_add(RETURN_2, e->ret * e->ret);
	sum_add(LOG, log2);
	sum_add(LOG_2, log2 * log2);
	sum_add(RETURN_LOG, e->ret * log2);
	sum_add(RETURN_AGENTS, e->ret * agents);
	sum_add(AGENTS_2, agents * agents);
	speedups[bin(log2, 0, 0.5, SPEEDUP_BINS)]++;
	scenario_sum[scenario][0]++;
	scenario_sum[scenario][1] += e->n_agents;
	scenario_sum[scenario][2] += e->n_messages;
	scenario_sum[scenario][4] += millionths(e->ret);
}

static void take_winner(const struct episode *e, int op)
{
	const struct message *last = &e->messages[e->n_messages - 1], *winner;
	int variant;

	winner = last->kind == KIND_VERDICT ? episode_candidate(e, last->candidate) : NULL;
	if (!winner) {
		count[UNIMPROVED]++;
		return;
	}
	count[WINNERS]++;
	count[CHANGED] += episode_lineage_changes(e, winner->candidate);
	variant = variant_index(&e->task, winner->variant);
	if (variant >= 0)
		wins[op][e->task.impl][gpu_index(e->task.gpu)][variant]++;
}

/* What no episode has, and no sum could hold. */
static void check_range(const struct row *r, const char *field, bool good)
{
	if (!good)
		row_fail(r, "field '%s' is out of range", field);
}

void tally_take(const struct row *r, const struct episode *e)
{
	int scenario = scenario_index(e->scenario), op = op_index(e->task.op);
	struct pay pay;
	double clip = INFINITY;

	if (isnan(e->ret) || isnan(e->speedup) || !e->n_messages)
		row_fail(r, "row is not scored");
	check_range(r, "return", fabs(e->ret) < 1e6);
	check_range(r, "speedup", e->speedup > 1e-12 && e->speedup < 1e12);
	check_range(r, "elapsed_s", e->elapsed_s >= 0);
	for (int a = 0; a < e->n_agents; a++) {
		const struct agent *g = &e->agents[a];

		check_range(r, "agents", g->tries >= 0 && g->kept >= 0 && fabs(g->ret) < 1e6);
	}
	if (e->scheme && !pay_parse(&pay, e->scheme) && !isnan(pay.weight[W_CLIP]))
		clip = pay.weight[W_CLIP];
	count[EPISODES]++;
	count[MESSAGES] += e->n_messages;
	count[AGENTS] += e->n_agents;
	count[ELAPSED] += e->elapsed_s;
	elapsed[bin((double)e->elapsed_s, 0, 900, ELAPSED_BINS)]++;
	op_episodes[op]++;
	gpu_episodes[gpu_index(e->task.gpu)]++;
	for (int i = 0; i < e->n_messages; i++) {
		const struct message *m = &e->messages[i];

		kinds[m->kind]++;
		take_text(r, m);
		if (m->kind == KIND_CANDIDATE) {
			count[CANDIDATES]++;
			op_candidates[op]++;
			take_source(r, m, op);
		} else if (m->kind == KIND_RESULT) {
			take_result(m, scenario, op, clip);
		}
	}
	take_agents(e, scenario);
	take_sums(e, scenario);
	take_winner(e, op);
}

void tally_move(enum tally_move move, bool improved)
{
	moves[move][0]++;
	moves[move][1] += improved;
}

/* ---- parts ---- */

json *tally_write(struct row *r)
{
	json *j = json_new_object(), *a;
	struct buf text = { 0 };

	json_add_str(j, "partial", KS_VERSION);
	for (int i = 0; i < LEN(arrays); i++) {
		a = json_add_array(j, arrays[i].key);
		for (int k = 0; k < arrays[i].n; k++)
			json_push(a, json_new_int(arrays[i].value[k]));
	}
	a = json_add_object(j, "sketches");
	for (int i = 0; i < LEN(sketches); i++) {
		buf_clear(&text);
		sketch_print(sketches[i].sketch, &text);
		json_add(a, sketches[i].key, row_new_text(r, text.len ? text.data : "", text.len));
	}
	a = json_add_object(j, "skeletons");
	for (int k = 0; k < KIND_COUNT; k++) {
		buf_clear(&text);
		buckets_print(&skeletons[k], &text);
		json_add(a, kind_name((enum kind)k),
		         row_new_text(r, text.len ? text.data : "", text.len));
	}
	buf_free(&text);
	return j;
}

static void read_array(const struct row *r, const char *key, int64_t *value, int n)
{
	const json *a = row_array(r, r->root, "", key), *c = json_first(a);

	for (int i = 0; i < n; i++, c = json_next(c)) {
		if (!c || !json_is_int(c))
			row_fail(r, "field '%s' is not %d integers", key, n);
		value[i] += json_int(c);
	}
	if (c)
		row_fail(r, "field '%s' is not %d integers", key, n);
}

static const char *read_text(const struct row *r, const json *obj, const char *where,
                             const char *key)
{
	const json *v = json_get(obj, key);
	size_t len;

	if (!v || !json_is_string(v))
		row_fail(r, "field '%s.%s' is no string", where, key);
	return row_text(r, v, &len);
}

void tally_read(const struct row *r)
{
	const json *part;

	if (strcmp(row_str(r, r->root, "", "partial"), KS_VERSION))
		row_fail(r, "partial is of another version '%s'",
		         row_str(r, r->root, "", "partial"));
	for (int i = 0; i < LEN(arrays); i++)
		read_array(r, arrays[i].key, arrays[i].value, arrays[i].n);
	for (int i = 0; i < N_SUMS; i++)
		sum_carry(sums[i]);
	part = row_object(r, r->root, "", "sketches");
	for (int i = 0; i < LEN(sketches); i++)
		if (!sketch_read(sketches[i].sketch,
		                 read_text(r, part, "sketches", sketches[i].key)))
			row_fail(r, "field 'sketches.%s' is no sketch", sketches[i].key);
	part = row_object(r, r->root, "", "skeletons");
	for (int k = 0; k < KIND_COUNT; k++)
		if (!buckets_read(&skeletons[k],
		                  read_text(r, part, "skeletons", kind_name((enum kind)k))))
			row_fail(r, "field 'skeletons.%s' is no table", kind_name((enum kind)k));
}

/* ---- the report ---- */

/* Six digits do for a statistic; 0 for what has no denominator. */
static double ratio(double a, double b)
{
	return b == 0 ? 0 : num_round(a / b, 6);
}

static void add_ints(json *j, const char *key, const int64_t *value, int n)
{
	json *a = json_add_array(j, key);

	for (int i = 0; i < n; i++)
		json_push(a, json_new_int(value[i]));
}

/* Pearson's, of n pairs with these sums; 0 where one does not vary. */
static double correlation(double n, double x, double y, double xx, double yy, double xy)
{
	double vx = n * xx - x * x, vy = n * yy - y * y;

	return vx > 0 && vy > 0 ? num_round((n * xy - x * y) / (sqrt(vx) * sqrt(vy)), 6) : 0;
}

/* Shares of outcomes; score leaves no raw `ok`. */
static void add_outcomes(json *j, const char *key, const int64_t *n)
{
	json *o = json_add_object(j, key);
	int64_t total = 0;

	for (int i = 0; i < N_OUTCOMES; i++)
		total += n[i];
	json_add_int(o, "results", total);
	for (int i = 1; i < N_OUTCOMES; i++)
		json_add_num(o, word_name((enum word)(OUTCOME_OK + i)),
		             ratio((double)n[i], (double)total));
}

static void report_outcomes(json *j)
{
	int64_t all[N_OUTCOMES] = { 0 };
	json *o = json_add_object(j, "outcomes"), *part;
	int n_ops;
	const struct op *const *ops = op_list(&n_ops);

	for (int s = 0; s < MAX_SCENARIOS; s++)
		for (int i = 0; i < N_OUTCOMES; i++)
			all[i] += by_scenario[s][i];
	add_outcomes(o, "all", all);
	part = json_add_object(o, "by_scenario");
	for (int s = 0; scenario_name(s); s++)
		add_outcomes(part, scenario_name(s), by_scenario[s]);
	part = json_add_object(o, "by_op");
	for (int i = 0; i < n_ops; i++)
		add_outcomes(part, ops[i]->name, by_op[i]);
}

static void report_scenarios(json *j)
{
	json *part = json_add_object(j, "scenarios");

	for (int s = 0; scenario_name(s); s++) {
		const int64_t *sum = scenario_sum[s];
		json *o = json_add_object(part, scenario_name(s));
		double n = (double)sum[0];

		json_add_int(o, "episodes", sum[0]);
		json_add_num(o, "agents", ratio((double)sum[1], n));
		json_add_num(o, "messages", ratio((double)sum[2], n));
		json_add_num(o, "tries", ratio((double)sum[3], n));
		json_add_num(o, "return", ratio((double)sum[4] / 1e6, n));
	}
}

static void report_returns(json *j)
{
	json *o = json_add_object(j, "returns"), *part;
	double n = (double)count[EPISODES], ret = sum_of(RETURN), log2 = sum_of(LOG);

	json_add_num(o, "mean", ratio(ret, n));
	json_add_num(o, "per_try", ratio(ret, (double)count[CANDIDATES]));
	json_add_num(o, "correlation_n_agents",
	             correlation(n, ret, (double)count[AGENTS], sum_of(RETURN_2), sum_of(AGENTS_2),
	                         sum_of(RETURN_AGENTS)));
	json_add_num(
		o, "correlation_log2_speedup",
		correlation(n, ret, log2, sum_of(RETURN_2), sum_of(LOG_2), sum_of(RETURN_LOG)));
	part = json_add_object(j, "rewards");
	json_add_num(part, "from", -1.05);
	json_add_num(part, "bin", 0.05);
	add_ints(part, "counts", rewards, REWARD_BINS);
	json_add_num(part, "improved_on_clip",
	             ratio((double)count[CLIPPED], (double)count[IMPROVED_PAID]));
	part = json_add_object(j, "log2_speedup");
	json_add_num(part, "mean", ratio(log2, n));
	json_add_num(part, "bin", 0.5);
	add_ints(part, "counts", speedups, SPEEDUP_BINS);
	json_add_num(part, "unimproved", ratio((double)count[UNIMPROVED], n));
}

static void report_skill(json *j)
{
	json *a = json_add_array(j, "skill");

	for (int i = 0; i < SKILL_BINS; i++) {
		json *o = json_new_object();

		json_add_num(o, "from", num_round(0.1 * i, 6));
		json_add_int(o, "agents", skill[i][0]);
		json_add_int(o, "tries", skill[i][1]);
		json_add_num(o, "kept_per_try", ratio((double)skill[i][2], (double)skill[i][1]));
		json_add_num(o, "return_per_try",
		             ratio((double)skill[i][3] / 1e6, (double)skill[i][1]));
		json_push(a, o);
	}
}

static void report_texts(json *j)
{
	json *o = json_add_object(j, "texts"), *part;

	json_add_int(o, "texts", count[TEXTS]);
	json_add_num(o, "repeats", num_round(sketch_repeats(&texts), 6));
	json_add_int(o, "trigrams", count[WORDS_3]);
	json_add_num(o, "distinct_trigrams", num_round(sketch_distinct(&trigrams), 6));
	json_add_num(o, "distinct_masked_trigrams",
	             num_round(sketch_distinct(&masked_trigrams), 6));
	part = json_add_object(o, "largest_skeleton");
	for (int k = 0; k < KIND_COUNT; k++) {
		int n, has_text = 0;
		const struct field *f = schema_kind((enum kind)k, &n);

		for (int i = 0; i < n; i++)
			has_text |= f[i].type == FT_TEXT;
		if (has_text)
			json_add_num(part, kind_name((enum kind)k),
			             ratio((double)buckets_most(&skeletons[k]), (double)kinds[k]));
	}
}

static void report_sources(json *j)
{
	json *o = json_add_object(j, "sources"), *part;
	double n = (double)count[CANDIDATES];
	int n_ops;
	const struct op *const *ops = op_list(&n_ops);

	json_add_int(o, "candidates", count[CANDIDATES]);
	json_add_num(o, "distinct", num_round(sketch_distinct(&sources), 6));
	json_add_num(o, "distinct_share", ratio(sketch_distinct(&sources), n));
	json_add_num(o, "distinct_masked", num_round(sketch_distinct(&masked_sources), 6));
	part = json_add_object(o, "distinct_masked_by_op");
	for (int i = 0; i < n_ops; i++)
		json_add_num(part, ops[i]->name,
		             num_round(sketch_distinct_tag(&masked_sources, (unsigned)i), 6));
}

static void report_moves(json *j)
{
	static const char *const names[] = { "against_limiter", "other", "limiter_unknown" };
	json *o = json_add_object(j, "moves"), *part;
	double share[TALLY_MOVES];

	for (int i = 0; i < TALLY_MOVES; i++) {
		share[i] = ratio((double)moves[i][1], (double)moves[i][0]);
		part = json_add_object(o, names[i]);
		json_add_int(part, "moves", moves[i][0]);
		json_add_num(part, "improved", share[i]);
	}
	json_add_num(o, "gain", num_round(share[TALLY_AGAINST] - share[TALLY_OTHER], 6));
}

/* The winning variants, commonest first is left to the reader: counts by op,
 * GPU and variant, none of them 0. */
static void report_winners(json *j)
{
	json *o = json_add_object(j, "winners"), *part;
	int n_ops, n_gpus, n;
	const struct op *const *ops = op_list(&n_ops);
	const struct gpu *gpus = gpu_list(&n_gpus);

	json_add_num(o, "lineage_changes_variant",
	             ratio((double)count[CHANGED], (double)count[WINNERS]));
	for (int i = 0; i < n_ops * IMPL_COUNT; i++) {
		const struct op *op = ops[i / IMPL_COUNT];
		enum impl impl = (enum impl)(i % IMPL_COUNT);
		const struct kernel *const *list;
		json *by_gpu = NULL;
		struct buf name = { 0 };

		if (!(op->impls & 1u << impl))
			continue;
		list = kernel_list(op->name, impl == IMPL_TRITON, &n);
		for (int g = 0; g < n_gpus; g++) {
			part = NULL;
			for (int v = 0; v < n && v < MAX_VARIANTS; v++) {
				int64_t won = wins[i / IMPL_COUNT][impl][g][v];

				if (!won)
					continue;
				if (!by_gpu) {
					buf_printf(&name, "%s/%s", op->name, impl_name(impl));
					by_gpu = json_add_object(o, name.data);
				}
				if (!part)
					part = json_add_object(by_gpu, gpus[g].name);
				json_add_int(part, list[v]->variant, won);
			}
		}
		buf_free(&name);
	}
}

json *tally_report(void)
{
	json *j = json_new_object(), *o;
	double n = (double)count[EPISODES];
	int n_ops, n_gpus;
	const struct op *const *ops = op_list(&n_ops);
	const struct gpu *gpus = gpu_list(&n_gpus);

	json_add_str(j, "version", KS_VERSION);
	json_add_int(j, "episodes", count[EPISODES]);
	json_add_int(j, "messages", count[MESSAGES]);
	json_add_num(j, "messages_per_episode", ratio((double)count[MESSAGES], n));
	json_add_int(j, "agents", count[AGENTS]);
	json_add_num(j, "agents_per_episode", ratio((double)count[AGENTS], n));
	json_add_int(j, "candidates", count[CANDIDATES]);
	o = json_add_object(j, "kinds");
	for (int k = 0; k < KIND_COUNT; k++)
		json_add_int(o, kind_name((enum kind)k), kinds[k]);
	o = json_add_object(j, "elapsed_s");
	json_add_num(o, "mean", ratio((double)count[ELAPSED], n));
	json_add_int(o, "bin", 900);
	add_ints(o, "counts", elapsed, ELAPSED_BINS);
	report_scenarios(j);
	o = json_add_object(j, "ops");
	for (int i = 0; i < n_ops; i++)
		json_add_int(o, ops[i]->name, op_episodes[i]);
	o = json_add_object(j, "gpus");
	for (int i = 0; i < n_gpus; i++)
		json_add_int(o, gpus[i].name, gpu_episodes[i]);
	report_outcomes(j);
	report_returns(j);
	report_skill(j);
	report_texts(j);
	report_sources(j);
	report_moves(j);
	report_winners(j);
	return j;
}

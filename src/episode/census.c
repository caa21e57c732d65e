/* census.c - see census.h. */
#include "episode/census.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "episode/replay.h"
#include "episode/schema.h"

enum { OP_WINDOW = 17, MAX_OPS = 64, MAX_GPUS = 32, MAX_SCENARIOS = 16 };

struct seen {
	int64_t index;
	uint64_t id; /* hash of the episode_id */
	uint32_t line;
	uint8_t op, gpu, scenario;
};

/* What the default build promises (README, "Measured"). */
static struct {
	int64_t rows, messages, agents, results, outcome[WORD_COUNT], improved_rewards, clipped;
	int64_t winners, changed, none_improved, short_or_long;
} sum;

static struct seen *rows;
static size_t n_rows, cap_rows;

/* ---- taking ---- */

static int op_index(const struct op *op)
{
	int n;
	const struct op *const *list = op_list(&n);

	for (int i = 0; i < n; i++)
		if (list[i] == op)
			return i;
	return 0;
}

static int scenario_index(const char *name)
{
	for (int i = 0; scenario_name(i); i++)
		if (!strcmp(scenario_name(i), name))
			return i;
	return 0;
}

static void take_sums(const struct episode *e)
{
	const struct message *last = &e->messages[e->n_messages - 1];

	sum.rows++;
	sum.messages += e->n_messages;
	sum.agents += e->n_agents;
	sum.short_or_long += e->elapsed_s < 3600 || e->elapsed_s > 5 * 3600;
	for (int i = 0; i < e->n_messages; i++) {
		const struct message *m = &e->messages[i];
		int outcome = m->kind == KIND_RESULT ? word_find(SET_OUTCOME, m->status) : -1;

		if (outcome < 0)
			continue;
		sum.results++;
		sum.outcome[outcome]++;
		if (outcome == OUTCOME_IMPROVED) {
			sum.improved_rewards++;
			sum.clipped += m->reward >= 1;
		}
	}
	if (last->kind != KIND_VERDICT || !last->candidate) {
		sum.none_improved++;
	} else {
		sum.winners++;
		sum.changed += episode_lineage_changes(e, last->candidate);
	}
}

void census_take(const struct episode *e, const char *episode_id, int64_t line)
{
	int n_gpus;

	if (n_rows == cap_rows) {
		cap_rows = cap_rows ? 2 * cap_rows : 4096;
		rows = xrealloc(rows, cap_rows * sizeof rows[0]);
	}
	rows[n_rows++] = (struct seen){
		.index = e->task.index,
		.id = hash_str(episode_id),
		.line = (uint32_t)line,
		.op = (uint8_t)op_index(e->task.op),
		.gpu = (uint8_t)(e->task.gpu - gpu_list(&n_gpus)),
		.scenario = (uint8_t)scenario_index(e->scenario),
	};
	if (e->n_messages)
		take_sums(e);
}

/* ---- closing ---- */

static int by_id(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int by_index(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void check_duplicates(const struct objector *o)
{
	qsort(rows, n_rows, sizeof rows[0], by_id);
	for (size_t i = 1; i < n_rows; i++)
		if (rows[i].id == rows[i - 1].id)
			object(o, RULE_DUPLICATE, -1, "episode_id",
			       "of index %" PRId64 " (line %" PRIu32 ") occurs twice",
			       rows[i].index, rows[i].line);
}

static void check_gaps(const struct objector *o)
{
	for (size_t i = 1; i < n_rows; i++)
		if (rows[i].index != rows[i - 1].index + 1)
			object(o, RULE_GAP, -1, "index", "goes from %" PRId64 " to %" PRId64,
			       rows[i - 1].index, rows[i].index);
}

/* Any 17 consecutive tasks hold all ops: counts slide along. */
static void check_windows(const struct objector *o, int n_ops)
{
	int count[MAX_OPS] = { 0 }, held = 0;

	for (size_t i = 0; i < n_rows; i++) {
		held += count[rows[i].op]++ == 0;
		if (i >= OP_WINDOW)
			held -= --count[rows[i - OP_WINDOW].op] == 0;
		if (i + 1 >= OP_WINDOW && held < n_ops) {
			object(o, RULE_WINDOW_OPS, -1, "index",
			       "%" PRId64 " and the %d before it hold %d of %d ops", rows[i].index,
			       OP_WINDOW - 1, held, n_ops);
			return; /* its neighbours would all say the same */
		}
	}
}

/* Each whole block of (GPUs x scenarios) holds every pair. Windows that slide
 * cannot: the reserved pairs move an op to other GPUs. */
static void check_blocks(const struct objector *o, int n_gpus, int n_scenarios)
{
	int64_t size = (int64_t)n_gpus * n_scenarios;

	for (size_t i = 0; i < n_rows; i++) {
		bool held[MAX_GPUS * MAX_SCENARIOS] = { false };
		int n = 0;

		if (rows[i].index % size || i + (size_t)size > n_rows)
			continue;
		for (size_t j = i; j < i + (size_t)size; j++) {
			int pair = rows[j].gpu * n_scenarios + rows[j].scenario;

			n += !held[pair];
			held[pair] = true;
		}
		if (n < size)
			object(o, RULE_BLOCK_PAIRS, -1, "index",
			       "%" PRId64 " to %" PRId64 " hold %d of %d (gpu, scenario) pairs",
			       rows[i].index, rows[i].index + size - 1, n, (int)size);
	}
}

static void check_shares(const struct objector *o, const int64_t *count, int n, int slack)
{
	for (int s = 0; s < n; s++)
		if (count[s] * n > (int64_t)n_rows + slack * n ||
		    count[s] * n < (int64_t)n_rows - slack * n)
			object(o, RULE_SHARES, -1, "scenario", "%s has %" PRId64 " of %zu rows",
			       scenario_name(s), count[s], n_rows);
}

static void within(const struct objector *o, const char *what, double x, double min, double max)
{
	if (!(x >= min && x <= max))
		object(o, RULE_DEFAULT, -1, what, "is %.4g, not %.4g to %.4g", x, min, max);
}

static void check_default(const struct objector *o)
{
	double rows_ = (double)sum.rows, results = (double)sum.results;

	within(o, "rows", rows_, 2400, 2400);
	if (!sum.rows || !sum.results)
		return;
	within(o, "messages", (double)sum.messages, 162000, 178000);
	within(o, "messages per episode", (double)sum.messages / rows_, 68, 74);
	within(o, "agents per episode", (double)sum.agents / rows_, 8.3, 8.9);
	within(o, "episodes outside 1 to 5 h", (double)sum.short_or_long, 0, 0);
	within(o, "share improved", (double)sum.outcome[OUTCOME_IMPROVED] / results, 0.25, 0.40);
	within(o, "share no_improvement", (double)sum.outcome[OUTCOME_NO_IMPROVEMENT] / results,
	       0.30, 0.50);
	within(o, "share compile_error", (double)sum.outcome[OUTCOME_COMPILE_ERROR] / results, 0.06,
	       0.14);
	within(o, "share wrong_result", (double)sum.outcome[OUTCOME_WRONG_RESULT] / results, 0.04,
	       0.10);
	within(o, "share unsupported_arch", (double)sum.outcome[OUTCOME_UNSUPPORTED_ARCH] / results,
	       0.01, 0.05);
	within(o, "share of improved rewards on the clip",
	       sum.improved_rewards ? (double)sum.clipped / (double)sum.improved_rewards : 0, 0,
	       0.40);
	within(o, "share of winners whose lineage changes variant",
	       sum.winners ? (double)sum.changed / (double)sum.winners : 0, 1.0 / 3, 1);
	within(o, "share of episodes without improvement", (double)sum.none_improved / rows_, 0,
	       0.02);
}

void census_close(const struct objector *o, bool is_default)
{
	int64_t ops[MAX_OPS] = { 0 }, gpus[MAX_GPUS] = { 0 }, scenarios[MAX_SCENARIOS] = { 0 };
	int n_ops, n_gpus, n_scenarios = 0, all_ops = 0, all_gpus = 0, all_scenarios = 0;

	op_list(&n_ops);
	gpu_list(&n_gpus);
	while (scenario_name(n_scenarios))
		n_scenarios++;
	if (n_ops > MAX_OPS || n_gpus > MAX_GPUS || n_scenarios > MAX_SCENARIOS)
		bug("census: more than %d ops, %d GPUs or %d scenarios", MAX_OPS, MAX_GPUS,
		    MAX_SCENARIOS);
	check_duplicates(o);
	qsort(rows, n_rows, sizeof rows[0], by_index);
	check_gaps(o);
	for (size_t i = 0; i < n_rows; i++) {
		all_ops += ops[rows[i].op]++ == 0;
		all_gpus += gpus[rows[i].gpu]++ == 0;
		all_scenarios += scenarios[rows[i].scenario]++ == 0;
	}
	if (all_ops == n_ops || is_default)
		check_windows(o, n_ops);
	if ((all_gpus == n_gpus && all_scenarios == n_scenarios) || is_default)
		check_blocks(o, n_gpus, n_scenarios);
	if (all_scenarios == n_scenarios || is_default)
		check_shares(o, scenarios, n_scenarios, 2 * n_gpus);
	if (is_default)
		check_default(o);
}

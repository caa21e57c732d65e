/* replay.c - episode/replay: who knew what when, and by what each is measured. */
#include "check.h"

#include <string.h>

#include "episode/replay.h"
#include "episode/schema.h"

static struct message messages[EP_MAX_MESSAGES];
static struct episode e = { .messages = messages };
static struct replay past;

static struct message *add(enum kind kind, const char *from, const char *to)
{
	struct message *m = &messages[e.n_messages];

	message_init(m, kind);
	m->step = e.n_messages++;
	m->from = from;
	m->to = to;
	return m;
}

/* Takes what has been added. */
static void run(void)
{
	while (past.n < e.n_messages)
		replay_take(&past);
}

static void candidate(const char *id, const char *from)
{
	add(KIND_CANDIDATE, from, "env")->candidate = id;
	run();
}

static void result(const char *id, const char *to, double ms, double cv)
{
	struct message *m = add(KIND_RESULT, "env", to);

	m->candidate = id;
	m->compile.status = word_name(COMPILED_OK);
	m->verify = (struct verify){ !isnan(ms), word_name(VERDICT_PASS), NULL, 0, 0 };
	m->bench.present = !isnan(ms);
	m->bench.ms = ms;
	m->bench.cv = cv;
	run();
}

static void share(enum kind kind, const char *from, const char *to, const char *id, double ms)
{
	struct message *m = add(kind, from, to);

	m->candidate = id;
	m->best_ms = ms;
	run();
}

static bool heard(const char *id, int who)
{
	int f = replay_fact(&past, id);

	return f >= 0 && past.heard[f] >> who & 1;
}

static bool heard_ms(const char *id, int who)
{
	int f = replay_fact(&past, id);

	return f >= 0 && past.heard_ms[f] >> who & 1;
}

static void begin(void)
{
	static const char *const ids[] = { "a01", "a02", "a03" };

	e.n_agents = 3;
	e.n_messages = 0;
	e.baseline_ms = 1;
	for (int a = 0; a < 3; a++)
		e.agents[a].id = ids[a];
	replay_start(&past, &e);
}

static void test_prev_best(void)
{
	begin();
	check(past.prev_best[0] == 1 && past.team_best == 1, "measured by the baseline at first");
	candidate("c001", "a01");
	result("c001", "a01", 0.5, 0.001);
	check(past.prev_best[0] == 0.5 && past.prev_best[1] == 1,
	      "one's own improvement counts, another's result does not");
	candidate("c002", "a01");
	result("c002", "a01", 0.4999, 0.001);
	check(past.prev_best[0] == 0.5 && past.kept[0] == 1, "less than 1 %% is no improvement");
	check(past.best[0] == 0.4999 && past.team_best == 0.4999, "yet it is the least time");
	candidate("c003", "a01");
	result("c003", "a01", 0.45, 0.06);
	check(past.kept[0] == 1, "nor is what 2 cv may explain");
	candidate("c004", "a01");
	result("c004", "a01", 0.45, 0.04);
	check(past.kept[0] == 2 && past.prev_best[0] == 0.45, "beyond both it is");
	candidate("c005", "a01");
	result("c005", "a01", NAN, 0);
	check(past.tries[0] == 5 && past.kept[0] == 2, "a failure is a try");
	share(KIND_REDIRECT, "lead", "a02", "c004", 0.45);
	check(past.prev_best[1] == 0.45 && past.prev_best[2] == 1, "a redirect binds its receiver");
	share(KIND_HANDOFF, "a02", "a03", "c001", 0.5);
	check(past.prev_best[2] == 0.5 && past.prev_best[1] == 0.45, "a handoff does, too");
	share(KIND_HANDOFF, "a01", "a02", "c005", NAN);
	check(past.prev_best[1] == 0.45, "one without a time does not");
	share(KIND_MERGE, "lead", NULL, "c003", 0.3);
	check(past.prev_best[0] == 0.3 && past.prev_best[1] == 0.3 && past.prev_best[2] == 0.3,
	      "a merge binds all");
	share(KIND_MERGE, "lead", NULL, "c001", 0.5);
	check(past.prev_best[0] == 0.3, "a slower one takes nothing back");
}

static void test_knowing(void)
{
	struct message *m;

	begin();
	candidate("c001", "a01");
	check(heard("c001", 0) && !heard("c001", 1) && !heard("c001", WHO_LEAD),
	      "its author alone knows a new candidate");
	result("c001", "a01", 0.5, 0.001);
	check(heard_ms("c001", 0) && !heard_ms("c001", WHO_LEAD), "and its result");
	m = add(KIND_LEADERBOARD, "env", "lead");
	m->n_entries = 1;
	m->entries[0] = (struct entry){ 1, "a01", "c001", 0.5 };
	run();
	check(heard_ms("c001", WHO_LEAD) && !heard("c001", 1), "the leaderboard tells the lead");
	share(KIND_HANDOFF, "a01", "a02", "c001", NAN);
	check(heard("c001", 1) && !heard_ms("c001", 1), "a handoff without a time names it only");
	share(KIND_MERGE, "lead", NULL, "c001", 0.5);
	check(heard_ms("c001", 1) && heard_ms("c001", 2), "a merge tells everybody");
	share(KIND_MERGE, "lead", NULL, "c999", 0.1);
	check(replay_fact(&past, "c999") < 0, "naming what was never sent makes no candidate");
	candidate("c001", "a02");
	check(past.n_facts == 1 && past.fact[0].author == 0, "sent twice: the first counts");
	check(replay_who(&e, "lead") == WHO_LEAD && replay_who(&e, "a03") == 2 &&
	              replay_who(&e, "env") == WHO_NOBODY && replay_who(&e, NULL) == WHO_NOBODY,
	      "who is who");
	m = add(KIND_STATUS, "a02", "lead");
	check(replay_audience(&e, m) == (UINT32_C(1) << 1 | UINT32_C(1) << WHO_LEAD),
	      "a message is seen by its two ends");
}

int main(void)
{
	test_prev_best();
	test_knowing();
	return check_done();
}

/* pay.c - episode/pay: what each scheme pays, and their names. */
#include "check.h"

#include <string.h>

#include "base/num.h"
#include "episode/pay.h"
#include "episode/schema.h"

static struct message messages[EP_MAX_MESSAGES];
static struct episode e = { .messages = messages };

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-8;
}

/* A scored result: prev and ms say whether it improved; ms NAN: `status`. */
static struct message *result(const char *to, double prev, double ms, const char *status)
{
	struct message *m = &messages[e.n_messages++];

	message_init(m, KIND_RESULT);
	m->from = "env";
	m->to = to;
	m->candidate = "c001";
	m->prev_best_ms = prev;
	m->kept = ms < prev * 0.99;
	m->compile.status = word_name(COMPILED_OK);
	m->status =
		status ? status : word_name(m->kept ? OUTCOME_IMPROVED : OUTCOME_NO_IMPROVEMENT);
	m->verify = (struct verify){ !isnan(ms), word_name(VERDICT_PASS), NULL, 0, 0 };
	m->bench.present = !isnan(ms);
	m->bench.ms = ms;
	m->bench.cv = 0;
	return m;
}

static void candidate(const char *id, const char *from)
{
	struct message *m = &messages[e.n_messages++];

	message_init(m, KIND_CANDIDATE);
	m->from = from;
	m->to = "env";
	m->candidate = id;
}

static struct message *verdict(double best)
{
	struct message *m = &messages[e.n_messages++];

	message_init(m, KIND_VERDICT);
	m->from = "lead";
	m->best_ms = best;
	m->speedup = num_value(e.baseline_ms / best);
	return m;
}

static struct pay scheme(const char *text)
{
	struct pay p;
	const char *why = pay_parse(&p, text);

	check(!why, "'%s' is a scheme%s%s", text, why ? ": " : "", why ? why : "");
	return p;
}

/* Two agents, every outcome; the baseline takes 8 ms, the best 1 ms. */
static void episode(void)
{
	static const int64_t shape[] = { 4096, 8192 };

	e.n_agents = 2;
	e.agents[0].id = "a01";
	e.agents[1].id = "a02";
	e.n_messages = 0;
	e.baseline_ms = 8;
	e.task.op = op_find("rmsnorm");
	e.task.gpu = gpu_find("h200");
	e.task.dtype = DT_FP16;
	memcpy(e.task.shape, shape, sizeof shape);
	candidate("c001", "a01");
	result("a01", 8, 1, NULL); /* 1 */
	candidate("c002", "a02");
	result("a02", 8, 6, NULL)->candidate = "c002";              /* 3 */
	result("a02", 6, 7, NULL);                                  /* 4 */
	result("a02", 6, NAN, word_name(OUTCOME_COMPILE_ERROR));    /* 5 */
	result("a02", 6, NAN, word_name(OUTCOME_UNSUPPORTED_ARCH)); /* 6 */
	result("a02", 6, NAN, word_name(OUTCOME_WRONG_RESULT));     /* 7 */
	result("a01", 1, NAN, word_name(OUTCOME_LAUNCH_ERROR));     /* 8 */
	result("a01", 1, NAN, word_name(OUTCOME_CRASHED));          /* 9 */
	result("a01", 1, NAN, word_name(OUTCOME_TIMEOUT));          /* 10 */
	result("a01", 1, NAN, word_name(OUTCOME_INFRA_ERROR));      /* 11 */
	verdict(1);                                                 /* 12 */
}

static void test_standard(void)
{
	struct pay p = scheme("standard");

	episode();
	pay_episode(&e, &p);
	check(messages[1].reward == 1, "three doublings are clipped to 1");
	check(messages[3].reward == num_value(num_log2(8.0 / 6.0)), "less is the logarithm");
	check(messages[4].reward == -0.05, "no improvement");
	check(messages[5].reward == -0.1 && messages[6].reward == -0.05 &&
	              messages[7].reward == -0.3,
	      "compile error, unsupported arch, wrong result");
	check(messages[8].reward == -0.1 && messages[9].reward == -0.3 &&
	              messages[10].reward == -0.3,
	      "launch error, crash, timeout");
	check(isnan(messages[11].reward), "the infrastructure's fault has no reward");
	check(messages[12].reward == 0.75, "the verdict gets log2(speedup) / 4");
	check(near(e.agents[0].ret, 1 - 0.7) && near(e.agents[1].ret, num_log2(8.0 / 6.0) - 0.5),
	      "an agent's return sums what was sent to it");
	check(near(e.ret, e.agents[0].ret + e.agents[1].ret + 0.75),
	      "the episode's adds the lead's");
}

static void test_team(void)
{
	struct pay p = scheme("team");
	double sum = 0;

	episode();
	pay_episode(&e, &p);
	for (int i = 0; i < e.n_messages; i++)
		if (messages[i].kind == KIND_RESULT && !isnan(messages[i].reward))
			sum += messages[i].reward;
	check(near(sum, num_log2(8) / 4) && messages[12].reward == 0,
	      "the team's rewards telescope to log2(speedup) / 4");
	check(messages[3].reward == 0, "what is no team best gets nothing");
}

static void test_ladder(void)
{
	struct pay p = scheme("ladder");

	episode();
	pay_episode(&e, &p);
	check(near(messages[1].reward, 8.3) && near(messages[4].reward, 0.3 + 8.0 / 7.0),
	      "0.3 for being right, and the speedup over the baseline");
	check(messages[7].reward == 0, "wrong is worth nothing");
}

static void test_light(void)
{
	struct pay p = scheme("light");
	double floor_ms = task_floor_ms(&e.task);
	bool bounded = true;

	episode();
	pay_episode(&e, &p);
	check(near(messages[1].reward, 1 / (1 + (1 - floor_ms) / (8 - floor_ms))),
	      "the gap to the speed of light");
	for (int i = 0; i < e.n_messages; i++)
		bounded &= isnan(messages[i].reward) ||
		           (messages[i].reward >= 0 && messages[i].reward <= 1);
	check(bounded, "within 0 and 1");
	messages[1].bench.ms = floor_ms / 2;
	messages[3].bench.ms = 8;
	pay_episode(&e, &p);
	check(messages[1].reward == 1 && messages[3].reward == 0.5,
	      "1 at the floor or below it, 1/2 at the baseline");
	e.baseline_ms = floor_ms;
	pay_episode(&e, &p);
	check(messages[3].reward == 0, "no gap to close: nothing to earn above the floor");
}

static void prints(const char *text, const char *want)
{
	struct pay p;
	struct buf out = { 0 };
	const char *why = pay_parse(&p, text);

	if (!why)
		pay_print(&p, &out);
	check(!why && !strcmp(out.data, want), "'%s' is '%s'", text, want);
	buf_free(&out);
}

static void refuses(const char *text, const char *want)
{
	struct pay p;
	const char *why = pay_parse(&p, text);

	check(why && !strcmp(why, want), "'%s': %s", text, why ? why : "good");
}

static void test_names(void)
{
	struct pay p;
	const char *name, *what, *source;
	int n = 0;

	prints("standard", "standard");
	prints("standard:clip=1", "standard");
	prints("standard:wrong_result=-0.5,clip=2", "standard:clip=2,wrong_result=-0.5");
	refuses("standards", "unknown scheme");
	refuses("", "unknown scheme");
	refuses("standard:", "weight is not KEY=VALUE");
	refuses("standard:clip", "weight is not KEY=VALUE");
	refuses("standard:clip=x", "weight is no number");
	refuses("standard:clip=nan", "weight is no number");
	refuses("standard:clip=1e7", "weight is no number");
	refuses("standard:speed=1", "unknown weight");
	refuses("standard:correct=1", "the scheme has no such weight");
	p = scheme("standard:no_improvement=-1");
	episode();
	pay_episode(&e, &p);
	check(messages[4].reward == -1, "a weight pays");
	for (; pay_list(n, &name, &what, &source); n++)
		check(*name && *what && *source && !pay_parse(&p, name),
		      "%s says what it pays and where it is from", name);
	check(n >= 4, "there are four schemes");
}

int main(void)
{
	test_standard();
	test_team();
	test_ladder();
	test_light();
	test_names();
	return check_done();
}

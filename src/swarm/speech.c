/*
 * speech.c - the messages, and the words in them.
 *
 * A text states only what its author has seen: its own results, what was
 * handed to it, what the code and the data sheet say. Times stand in it as
 * they stand in the row.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"
#include "episode/schema.h"
#include "kernels/kernel.h"
#include "swarm/env.h"
#include "swarm/phrase.h"
#include "swarm/world.h"

static const char lead[] = "lead", env_id[] = "env";

/* Every message starts from what everybody knows. */
static struct facts open_facts(struct world *w)
{
	return w->common;
}

static void fact_ms(struct facts *f, const char *name, double ms)
{
	fact(f, name, "%.6g", ms);
}

/* "1 try", "3 tries". */
static void fact_tries(struct facts *f, const char *name, int64_t n)
{
	fact(f, name, "%lld %s", (long long)n, n == 1 ? "try" : "tries");
}

/* 1 200 000 bytes as "1.2 MB". */
static void fact_bytes(struct facts *f, const char *name, double bytes)
{
	if (bytes >= 1e9)
		fact(f, name, "%.3g GB", bytes / 1e9);
	else if (bytes >= 1e6)
		fact(f, name, "%.3g MB", bytes / 1e6);
	else
		fact(f, name, "%.3g KB", bytes / 1e3);
}

static void fact_params(struct world *w, struct facts *f, const char *name, const struct config *c)
{
	const struct kernel *k = w->variants[c->variant].kernel;
	char text[256] = "";
	size_t n = 0;

	for (int i = 0; i < k->n_params; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %lld", i ? ", " : "",
		                      k->params[i].name, (long long)c->params[i]);
	fact(f, name, "%s", k->n_params ? text : "its only setting");
}

void speech_open(struct world *w)
{
	struct facts *f = &w->common;
	const struct problem *p = &w->problem;
	double bytes = (double)p->op->bytes(p->shape, p->dtype),
	       flops = (double)p->op->flops(p->shape, p->dtype);
	double tflops = p->op->pipe == PIPE_TENSOR16   ? p->gpu->tc16_tflops
	                : p->op->pipe == PIPE_TENSOR8I ? p->gpu->tc8i_tops
	                : p->op->pipe == PIPE_TENSOR8F && p->gpu->tc8f_tflops > 0
	                        ? p->gpu->tc8f_tflops
	                : p->op->pipe == PIPE_TENSOR8F ? p->gpu->tc16_tflops
	                                               : p->gpu->fp32_tflops;
	char shape[128] = "";
	size_t n = 0;

	for (int i = 0; i < p->op->n_axes; i++)
		n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%s=%lld", i ? ", " : "",
		                      p->op->axes[i], (long long)p->shape[i]);
	*f = (struct facts){ .arena = w->arena };
	fact(f, "op", "%s", p->op->name);
	fact(f, "gpu", "%s", p->gpu->name);
	fact(f, "arch", "%s", p->gpu->arch);
	fact(f, "dtype", "%s", dtype_name(p->dtype));
	fact(f, "shape", "%s", shape);
	fact(f, "ridge", "%.0f", tflops * 1e3 / p->gpu->dram_gbps);
	fact(f, "peak", "%.0f", p->gpu->dram_gbps);
	fact(f, "tflops", "%.4g", tflops);
	fact_bytes(f, "bytes", bytes);
	fact(f, "gflop", "%.3g", flops / 1e9);
	fact(f, "intensity", "%.2g", flops / bytes);
	fact(f, "floor", "%.3g", model_floor_us(p));
	fact_ms(f, "baseline", w->e->baseline_ms);
	fact(f, "bound", "%s",
	     bytes / p->gpu->dram_gbps > flops / (tflops * 1e3) ? "bandwidth" : "arithmetic");
}

/* What a timed result shows its reader. */
static void fact_bench(struct world *w, struct facts *f, const struct message *m)
{
	fact(f, "last", "%s", m->candidate);
	fact_ms(f, "last_ms", m->bench.ms);
	fact(f, "limiter", "%s", m->bench.limiter);
	fact(f, "occ", "%.0f", 100 * m->bench.occupancy);
	fact(f, "gbps", "%.0f", m->bench.gbps);
	fact(f, "share", "%.0f", 100 * m->bench.gbps / w->problem.gpu->dram_gbps);
	fact(f, "regs", "%lld", (long long)m->compile.registers);
	fact(f, "factor", "%.3g", m->bench.ms * 1000 / model_floor_us(&w->problem));
	fact(f, "did", "%.3g", m->bench.tflops);
}

/* --- the candidate's text ------------------------------------------------ */

static const char from_baseline[] =
	"[the baseline stands at {baseline} ms|{baseline} ms for the baseline, against a floor of {floor} us|"
	"nothing measured yet beyond the baseline's {baseline} ms|{shape} moves {bytes}, so {floor} us would be the floor|"
	"first look: {bytes} to move, baseline {baseline} ms|at {peak} GB/s this shape needs {floor} us, the baseline takes {baseline} ms|"
	"{op} on {gpu} starts from {baseline} ms]";

static const char from_result[] =
	"[{last} took {last_ms} ms, {limiter_is}|{last} came back at {last_ms} ms with {occ} % occupancy, {limiter_is}|"
	"with {last_ms} ms {last} reaches {gbps} GB/s, {share} % of peak, {limiter_is}|{last}: {last_ms} ms, {regs} registers, {limiter_is}|"
	"{last} sits {factor} x above the floor at {last_ms} ms, {limiter_is}|{gbps} of {peak} GB/s in {last}, {limiter_is}|"
	"the bench of {last} says {last_ms} ms and {limiter_is}]";

static const char from_failure[] =
	"[{last} did not compile: {why}|the compiler stopped {last} with {why}|{last} failed to build, {why}|"
	"nvcc on {last}: {why}|no binary from {last}, it said {why}]";

static const char from_mismatch[] =
	"[{last} built but its output does not agree, {why}|verification turned {last} down: {why}|"
	"{last} computes something else, the check says {why}|{last} is off against the reference, {why}]";

static const char from_refusal[] =
	"[{last} cannot run here, {why}|{arch} will not take {last}: {why}|{why}, so {last} is out on {gpu}]";

static const char standing_on[] =
	"[best so far is {base} at {base_ms} ms|I build on {base}, {base_ms} ms|{base} with {base_ms} ms stays my reference|"
	"working from {base} ({base_ms} ms)|{base_ms} ms by {base} is what has to be beaten|{base} holds at {base_ms} ms]";

static const char step_param[] =
	"[{param} goes from {old} to {new} in {variant}|in {variant} I move {param} from {old} to {new}|"
	"next {param} {new} in place of {old}|{variant} again with {param} {new}, it was {old}|"
	"one step: {param} {old} -> {new}, the rest of {variant} as it was|changing only {param}, {old} to {new}|"
	"trying {variant} at {param} {new} rather than {old}]";

static const char step_variant[] =
	"[switching to {variant}, {idea}, with {params}|{variant} next: {idea}; {params}|"
	"I take up {variant} ({idea}) at {params}|a different structure, {idea}: {variant} with {params}|"
	"over to {variant} with {params}, that is {idea}|{idea} is what {variant} does, entering at {params}|"
	"going to {variant}; {params} to begin with]";

static const char step_repair[] =
	"[same configuration, mended: {variant} with {params}|{variant} with {params} once more, corrected|"
	"I went through the source again; {variant} at {params} as it was meant|the slip is out, {variant} and {params} unchanged|"
	"resending {variant} ({params}) after reading it line by line]";

/* By limiter: why this should help. */
static const char *const reasons[LIMIT_COUNT] = {
	[LIMIT_MEMORY] =
		"[that cuts the traffic to {traffic_share} % of what it was|fewer bytes through L2 and DRAM, about {traffic_share} %|"
		"{traffic_share} % of the former traffic by my count|less re-reading should show at once when memory is the limit]",
	[LIMIT_OCCUPANCY] =
		"[that keeps {flight} in flight on the chip|bytes in flight grow to {flight}|"
		"{flight} of loads outstanding instead of {flight_old}|Little's law wants more outstanding loads, this gives {flight}]",
	[LIMIT_LATENCY] =
		"[the dependent path gets shorter, {serial_share} % of before|fewer serial steps, {serial_share} % remain|"
		"{grid} blocks instead of {grid_old} shorten the critical path|the chain per wave shrinks to {serial_share} %]",
	[LIMIT_TENSOR] =
		"[less time on the tensor pipe, {tensor_share} % by count|the tile wastes fewer tensor operations, {tensor_share} % of before|"
		"a better fed tensor pipe, {tensor_share} % of the time by my estimate]",
	[LIMIT_ALU] =
		"[{issue_share} % of the instructions|issue slots are the limit and this issues {issue_share} % of before|"
		"fewer instructions per byte, {issue_share} % by count]",
	[LIMIT_LAUNCH] =
		"[less of it is launch overhead|launch cost dominates here, so fewer or shorter launches|"
		"at this size what counts is the fixed cost]",
};

static const char curious[] =
	"[to see how much it matters here|I have no strong expectation|mostly to learn the slope|worth one try|"
	"cheap to check|if nothing else it rules that direction out|a guess more than a plan|to map that side of the space|"
	"{grid} blocks of {block} threads then|that makes {smem} of shared memory per block|the grid becomes {grid} blocks|"
	"it keeps {flight} in flight]";

static int64_t largest_grid(const struct resources *r)
{
	int64_t n = 0;

	for (int i = 0; i < r->n; i++)
		n = r->launch[i].grid > n ? r->launch[i].grid : n;
	return n;
}

static double percent(double new, double old)
{
	double p = old > 0 ? 100 * new / old : 100;

	return p < 1 ? 1 : p;
}

static void fact_change(struct facts *f, const struct sight *from, const struct sight *to)
{
	int64_t smem = 0;

	for (int i = 0; i < to->resources.n; i++)
		smem = to->resources.launch[i].smem > smem ? to->resources.launch[i].smem : smem;
	fact(f, "traffic_share", "%.0f", percent(to->terms.traffic, from->terms.traffic));
	fact(f, "serial_share", "%.0f", percent(to->terms.serial, from->terms.serial));
	fact(f, "tensor_share", "%.0f", percent(to->terms.tensor, from->terms.tensor));
	fact(f, "issue_share", "%.0f", percent(to->terms.issue, from->terms.issue));
	fact_bytes(f, "flight", to->terms.in_flight);
	fact_bytes(f, "flight_old", from->terms.in_flight);
	fact(f, "grid", "%lld", (long long)largest_grid(&to->resources));
	fact(f, "grid_old", "%lld", (long long)largest_grid(&from->resources));
	fact(f, "block", "%lld", (long long)to->resources.launch[0].block);
	fact_bytes(f, "smem", (double)smem);
}

/* The first line of a log, without what a sentence cannot hold. */
static void fact_log(struct facts *f, const char *log)
{
	const char *error = strstr(log, "error: "), *p = error ? error + 7 : log;
	char text[128];
	size_t n = strcspn(p, "\n");

	if (!error && strchr(log, '\n')) {
		p = strchr(log, '\n') + 1;
		n = strcspn(p, "\n");
	}
	snprintf(text, sizeof text, "%.*s", (int)(n < 100 ? n : 100), p);
	fact(f, "why", "%s", text);
}

static const char limiter_words[] =
	"[{limiter}-bound|limited by {limiter}|the limiter named is {limiter}|{limiter} is the limit]";

/* What the author has just learnt, as a clause. */
static const char *opening(struct world *w, struct facts *f, const struct candidate *c)
{
	const struct message *r = NULL;

	/* The candidate itself is the last of the list. */
	for (int i = w->n_candidates - 2; i >= 0 && !r; i--) {
		if (w->candidates[i].author == c->author)
			r = w->candidates[i].result;
	}
	if (!r)
		return c->parent < 0 ? from_baseline : standing_on;
	if (r->bench.present) {
		fact_bench(w, f, r);
		fact(f, "limiter_is", "%s", clause(f, &w->words, limiter_words));
		return from_result;
	}
	fact(f, "last", "%s", r->candidate);
	if (r->verify.present) {
		fact(f, "why", "%s",
		     strcmp(r->verify.reason, "nonfinite") == 0 ? "values that are not finite"
		                                                : r->verify.reason);
		return from_mismatch;
	}
	fact_log(f, r->compile.log ? r->compile.log : "no log");
	return word_find(SET_OUTCOME, r->status) == OUTCOME_UNSUPPORTED_ARCH ? from_refusal
	                                                                     : from_failure;
}

void say_candidate(struct world *w, int candidate)
{
	struct candidate *c = &w->candidates[candidate];
	const struct variant *v = &w->variants[c->sight.config.variant];
	const struct sight *from = c->parent < 0 ? &w->baseline : &w->candidates[c->parent].sight;
	struct message *m = world_message(w, KIND_CANDIDATE, w->members[c->author].agent->role,
	                                  w->members[c->author].agent->id, env_id);
	struct facts f = open_facts(w);
	static struct buf source, grammar;
	const char *first;

	fact_change(&f, from, &c->sight);
	fact(&f, "variant", "%s", v->kernel->variant);
	fact(&f, "idea", "%s", v->kernel->idea);
	fact_params(w, &f, "params", &c->sight.config);
	if (c->move == MOVE_PARAM || c->move == MOVE_START) {
		fact(&f, "param", "%s", v->kernel->params[c->param].name);
		fact(&f, "old", "%lld", (long long)from->config.params[c->param]);
		fact(&f, "new", "%lld", (long long)c->sight.config.params[c->param]);
	}
	if (c->parent >= 0) {
		double ms = world_ms(w, c->parent);

		fact(&f, "base", "%s", w->candidates[c->parent].id);
		/* Handed on before it ran, or never timed: the best known then. */
		fact_ms(&f, "base_ms",
		        isnan(ms) || !(w->replay.heard_ms[c->parent] >> c->author & 1)
		                ? world_prev_best(w, c->author)
		                : ms);
	}
	first = opening(w, &f, c);
	buf_clear(&grammar);
	buf_str(&grammar, first);
	buf_str(&grammar, "[. |; |. ]");
	if (c->parent >= 0 && first != standing_on && c->move != MOVE_REPAIR &&
	    rng_unit(&w->words) < 0.4) {
		buf_str(&grammar, standing_on);
		buf_str(&grammar, ". ");
	}
	buf_str(&grammar, c->move == MOVE_REPAIR    ? step_repair
	                  : c->move == MOVE_VARIANT ? step_variant
	                                            : step_param);
	if (c->move != MOVE_REPAIR) {
		buf_str(&grammar, "[, |: |; |. ]");
		buf_str(&grammar, c->limiter >= 0 ? reasons[c->limiter] : curious);
	}
	buf_str(&grammar, ".");
	m->text = phrase(&f, &w->words, grammar.data);

	buf_clear(&source);
	kernel_render(v->kernel, dtype_name(w->problem.dtype), c->sight.config.params, c->fault,
	              &source, &c->fault_line);
	c->source_hash = hash_bytes(source.data, source.len, 0);
	m->source = arena_copy(w->arena, source.data, source.len);
	m->source_len = (int64_t)source.len;
	m->candidate = c->id;
	m->parent = c->parent < 0 ? NULL : w->candidates[c->parent].id;
	m->variant = v->kernel->variant;
	m->params.n = v->kernel->n_params;
	for (int i = 0; i < v->kernel->n_params; i++) {
		m->params.key[i] = v->kernel->params[i].name;
		m->params.value[i] = c->sight.config.params[i];
	}
	world_sent(w);
}

/* --- the lead ------------------------------------------------------------ */

void say_plan(struct world *w)
{
	struct episode *e = w->e;
	struct message *m = world_message(w, KIND_PLAN, lead, lead, NULL);
	struct facts f = open_facts(w);
	int64_t kept = w->reserve + w->emergency, tries = kept;

	for (int i = 0; i < e->n_assignments; i++) {
		m->assignments[m->n_assignments++] = e->assignments[i];
		tries += e->assignments[i].tries;
	}
	m->budget = (struct budget){ tries, w->deadline };
	fact(&f, "n", "%d", e->n_agents);
	fact_tries(&f, "tries", tries);
	fact_tries(&f, "reserve", kept);
	fact(&f, "minutes", "%lld", (long long)w->deadline / 60);
	fact(&f, "impl", "%s", impl_name(w->problem.impl));
	m->text = phrase(
		&f, &w->words,
		"[we optimise {op} ({impl}, {dtype}) on {gpu}|target: {op} in {dtype} on {gpu}, {impl}|today's kernel is {op}, {dtype}, for {gpu}|"
		"{op} for {gpu} ({arch}), {dtype}, written in {impl}] [at {shape}|for {shape}|with {shape}]. "
		"[it must move {bytes} and do {gflop} GFLOP|compulsory work: {bytes} and {gflop} GFLOP|{bytes} in and out, {gflop} GFLOP]"
		"[, {intensity} FLOP/B against a ridge of {ridge}|; at {intensity} FLOP/B the ridge is at {ridge}|, so {bound} sets the limit|: a {bound} problem by the data sheet]. "
		"[at {peak} GB/s and {tflops} TFLOPS the floor is {floor} us|the data sheet allows {floor} us|no kernel goes below {floor} us|speed of light is {floor} us] "
		"[and the baseline takes {baseline} ms|while the baseline needs {baseline} ms|, the baseline is at {baseline} ms]. "
		"[{n} of you share {tries}|{tries} for {n} agents|budget: {tries}, {n} agents] "
		"[in {minutes} minutes|until minute {minutes}|, and we stop after {minutes} minutes]"
		"[, {reserve} of them held back for what proves itself|; I keep {reserve} for the leaders|; {reserve} stay with me until we know more].");
	world_sent(w);
}

void say_dispatch(struct world *w, int member, int tries)
{
	const struct member *who = &w->members[member];
	const struct kernel *k = w->variants[who->variant].kernel;
	struct message *m = world_message(w, KIND_DISPATCH, lead, lead, who->agent->id);
	struct facts f = open_facts(w);
	const char *narrow = NULL;

	search_region(w, member, &m->region);
	m->variant = k->variant;
	m->tries = tries;
	fact(&f, "variant", "%s", k->variant);
	fact(&f, "idea", "%s", k->idea);
	fact_tries(&f, "tries", tries);
	for (int i = 0; i < k->n_params; i++) {
		if (m->region.count[i] < k->params[i].n)
			narrow = k->params[i].name;
	}
	fact(&f, "param", "%s", narrow ? narrow : k->n_params ? k->params[0].name : "nothing");
	m->text = phrase(
		&f, &w->words,
		narrow ? "[you take {variant}|{variant} is yours|please work on {variant}|your part is {variant}]: [{idea}|that is {idea}|the idea is {idea}]. "
			 "[others search the rest of {param}, stay in your slice|keep {param} to the values given|your share of {param} is listed, leave the rest|"
			 "{param} is split between you and others|only the listed values of {param}]. "
			 "[{tries}|you have {tries}|up to {tries}] [on {shape}|against {baseline} ms|, report when they are used|, then tell me your best|toward {floor} us]."
		       : "[you take {variant}|{variant} is yours|please work on {variant}|your part is {variant}|explore {variant}]: [{idea}|that is {idea}|the idea is {idea}]. "
			 "[all parameters are open|the whole space of it|start where you like, {param} first perhaps|no restriction on its parameters|{param} probably matters most]. "
			 "[{tries}|you have {tries}|up to {tries}|{tries} in all] [on {shape}|against {baseline} ms|, report when they are used|, then tell me your best|toward {floor} us|from {baseline} ms].");
	world_sent(w);
}

void say_leaderboard(struct world *w)
{
	struct message *m;
	int order[EP_MAX_AGENTS], n = world_ranking(w, order);

	if (!n)
		return;
	m = world_message(w, KIND_LEADERBOARD, env_id, env_id, lead);
	for (int i = 0; i < n; i++) {
		int c = replay_fact(&w->replay, w->replay.fact[w->replay.best_fact[order[i]]].id);

		m->entries[m->n_entries++] =
			(struct entry){ i + 1, w->members[order[i]].agent->id, w->candidates[c].id,
			                w->replay.best[order[i]] };
	}
	world_sent(w);
}

/* The author's name, the candidate, its time and gain. */
static void fact_leader(struct world *w, struct facts *f, int candidate)
{
	const struct candidate *c = &w->candidates[candidate];
	const struct kernel *k = w->variants[c->sight.config.variant].kernel;

	fact(f, "leader", "%s", c->id);
	fact(f, "author", "%s", w->members[c->author].agent->id);
	fact_ms(f, "leader_ms", world_ms(w, candidate));
	fact(f, "gain", "%.3g", w->e->baseline_ms / world_ms(w, candidate));
	fact(f, "above", "%.3g", world_ms(w, candidate) * 1000 / model_floor_us(&w->problem));
	fact(f, "leader_share", "%.0f",
	     100 * (double)w->problem.op->bytes(w->problem.shape, w->problem.dtype) /
	             world_ms(w, candidate) / 1e6 / w->problem.gpu->dram_gbps);
	fact(f, "variant", "%s", k->variant);
	fact(f, "idea", "%s", k->idea);
	fact_params(w, f, "params", &c->sight.config);
}

void say_merge(struct world *w, int candidate)
{
	const struct candidate *c = &w->candidates[candidate];
	struct message *m = world_message(w, KIND_MERGE, lead, lead, NULL);
	struct facts f = open_facts(w);

	fact_leader(w, &f, candidate);
	m->candidate = c->id;
	m->agent = w->members[c->author].agent->id;
	m->best_ms = world_ms(w, candidate);
	m->text = phrase(
		&f, &w->words,
		"[{leader} by {author} leads with {leader_ms} ms|{author}'s {leader} is ahead at {leader_ms} ms|we merge {leader} ({author}, {leader_ms} ms)|"
		"from now on {leader} is the reference: {leader_ms} ms, by {author}|the board is led by {leader}, {leader_ms} ms, {author}]. "
		"[that is {gain} x the baseline|{gain} x faster than where we began|{above} x above the floor still|the floor is {floor} us, {above} x away|"
		"{leader_share} % of peak bandwidth by compulsory bytes]; "
		"[it is {variant}, {idea}|the structure is {idea}|{variant} with {params}|its settings: {params}]. "
		"[build on it|take it as your parent unless you have better|everybody may start from it|what beats it counts from here|measure yourselves against it].");
	world_sent(w);
}

void say_redirect(struct world *w, int member, int candidate, int tries)
{
	struct member *who = &w->members[member];
	struct message *m = world_message(w, KIND_REDIRECT, lead, lead, who->agent->id);
	struct facts f = open_facts(w);
	const struct kernel *k;

	if (candidate >= 0) {
		search_adopt(w, member, candidate);
		fact_leader(w, &f, candidate);
		m->candidate = w->candidates[candidate].id;
		m->best_ms = world_ms(w, candidate);
	}
	k = w->variants[who->variant].kernel;
	fact(&f, "variant", "%s", k->variant);
	fact(&f, "idea", "%s", k->idea);
	fact_tries(&f, "tries", tries);
	fact(&f, "you", "%s", who->agent->id);
	search_region(w, member, &m->region);
	m->variant = k->variant;
	m->text = phrase(
		&f, &w->words,
		candidate >= 0
			? "[{you}, join {variant}|{you}: please move to {variant}|{variant} from here on, {you}|change of plan for {you}, {variant}|put your tries into {variant}]"
			  "[: {leader} has {leader_ms} ms there| where {leader} reached {leader_ms} ms|, {leader} shows {leader_ms} ms|; take {leader} ({leader_ms} ms) as parent]. "
			  "[it is {gain} x the baseline|it stands at {params}|the idea there is {idea}|{author} found it|{above} x above the floor remain|{params} is its point]. "
			  "[{tries} more|you get {tries}|{tries} around it|use {tries}]"
			  "[, look at its neighbours|, and leave what you had|, go against what limits it|, vary what {author} did not| near those settings]."
			: "[{you}, try {variant} instead|{you}: {variant} next|leave that and take {variant}|{variant} deserves a look, {you}|move over to {variant}]: "
			  "[{idea}|that is {idea}|its idea is {idea}]. [nobody has timed it yet|we have nothing below {baseline} ms yet|the baseline's {baseline} ms still stands|"
			  "the floor is {floor} us and we are far from it]. [{tries}|you get {tries}|{tries} more]"
			  "[, the whole region is open|, begin where it is safe|, start small|, see what it gives on {shape}].");
	world_sent(w);
}

void say_verdict(struct world *w)
{
	struct message *m = world_message(w, KIND_VERDICT, lead, lead, NULL);
	struct facts f = open_facts(w);
	int leader = world_leader(w);

	fact(&f, "minutes", "%lld", (long long)w->now / 60);
	fact(&f, "n", "%d", w->e->n_agents);
	m->best_ms = w->e->baseline_ms;
	if (leader >= 0) {
		fact_leader(w, &f, leader);
		m->candidate = w->candidates[leader].id;
		m->best_ms = world_ms(w, leader);
		m->text = phrase(
			&f, &w->words,
			"[we ship {leader} by {author}|{leader} ({author}) is the result|the episode ends with {leader} from {author}|final: {leader}, {author}|"
			"{author}'s {leader} wins]: [{leader_ms} ms against {baseline} ms|{leader_ms} ms, the baseline was {baseline} ms|from {baseline} ms down to {leader_ms} ms]"
			"[, {gain} x|; a factor of {gain}|, that is {gain} x faster]. "
			"[what did it: {idea}|the structure is {idea}|{variant} with {params}|{variant} carried it ({idea})|settings {params}]. "
			"[{above} x above the speed of light remain|{leader_share} % of peak bandwidth by compulsory bytes|the floor of {floor} us is {above} x away|"
			"{n} agents, {minutes} minutes|after {minutes} minutes on {gpu}].");
	} else {
		m->text = phrase(
			&f, &w->words,
			"[nothing beat the baseline's {baseline} ms|the baseline stays at {baseline} ms|{baseline} ms, the baseline, was not beaten]"
			"[ in {minutes} minutes| by {n} agents|, we stop here after {minutes} minutes]. "
			"[{shape} may be too small to gain on|the floor is {floor} us|on {gpu} that leaves {floor} us as the aim|we close without a winner].");
	}
	world_sent(w);
}

/* --- agents among themselves --------------------------------------------- */

void say_status(struct world *w, int member)
{
	const struct member *who = &w->members[member];
	struct message *m = world_message(w, KIND_STATUS, who->agent->role, who->agent->id, lead);
	struct facts f = open_facts(w);
	int best = w->replay.best_fact[member];
	const char *grammar;

	m->tries_left = who->tries;
	fact_tries(&f, "left", who->tries);
	fact_tries(&f, "sent", w->replay.tries[member]);
	if (who->variant >= 0)
		fact(&f, "mine", "%s", w->variants[who->variant].kernel->variant);
	else
		fact(&f, "mine", "%s", "free search");
	if (!isnan(w->replay.best[member])) {
		const struct candidate *c = &w->candidates[best];

		fact_leader(w, &f, best);
		fact_bench(w, &f, c->result);
		m->best_ms = w->replay.best[member];
		grammar =
			"[{leader} is my best, {leader_ms} ms|best of {sent}: {leader} with {leader_ms} ms|{leader_ms} ms with {leader} after {sent}|my {leader} runs in {leader_ms} ms|"
			"{sent} sent, {leader} leads at {leader_ms} ms]"
			"[, {variant} at {params}| ({variant}; {params})|; that is {variant}|, {gain} x the baseline|, {above} x from the floor]. "
			"[it is {limiter}-bound at {occ} % occupancy|the limit is {limiter}, {gbps} GB/s|{limiter} limits it|{share} % of peak, {limiter}-bound|{regs} registers, {occ} % occupancy, {limiter}]. "
			"[{left} left|I have {left} left|{left} remain with me|that leaves {left}].";
	} else {
		grammar =
			"[nothing of mine has run yet|no timing from me after {sent}|{sent} without a timed result|still no running candidate on {mine}|after {sent} all of mine stopped before the bench]"
			"[, {mine} is harder than it looked| on {shape}|; the baseline's {baseline} ms stands| with {mine}]. "
			"[{left} left|I have {left} left|{left} remain with me|that leaves {left}].";
	}
	m->text = phrase(&f, &w->words, grammar);
	world_sent(w);
}

void say_handoff(struct world *w, int candidate, int from, int to)
{
	const struct candidate *c = &w->candidates[candidate];
	struct message *m = world_message(w, KIND_HANDOFF, w->members[from].agent->role,
	                                  w->members[from].agent->id, w->members[to].agent->id);
	struct facts f = open_facts(w);
	double ms = world_ms(w, candidate);

	fact(&f, "id", "%s", c->id);
	fact(&f, "you", "%s", w->members[to].agent->id);
	fact(&f, "variant", "%s", w->variants[c->sight.config.variant].kernel->variant);
	fact(&f, "idea", "%s", w->variants[c->sight.config.variant].kernel->idea);
	fact_params(w, &f, "params", &c->sight.config);
	fact(&f, "grid", "%lld", (long long)largest_grid(&c->sight.resources));
	m->candidate = c->id;
	m->best_ms = ms;
	if (isnan(ms)) {
		m->text = phrase(
			&f, &w->words,
			"[{id} for you to read, {you}|{you}, please look over {id}|reading requested: {id}|{id} goes to {you} before it runs|here is {id}]: "
			"[{variant} with {params}|{variant}, {idea}|{idea}, set to {params}|{params} in {variant}]. "
			"[mind the tail at {shape}|the index arithmetic is what I would check|{grid} blocks, please check the bounds|is the {dtype} path right?|look at the loop bounds first|"
			"the launch is {grid} blocks|anything odd in the masks?].");
	} else {
		fact_leader(w, &f, candidate);
		fact_bench(w, &f, c->result);
		m->text = phrase(
			&f, &w->words,
			"[{id} runs in {leader_ms} ms and is yours, {you}|{you}: {id}, {leader_ms} ms|handing {id} to {you} at {leader_ms} ms|take over {id} ({leader_ms} ms), {you}|{id} measured {leader_ms} ms, over to {you}]; "
			"[{variant} with {params}|{variant}, {idea}|it is {idea}|{gain} x the baseline|{params}]. "
			"[{limiter} limits it at {occ} % occupancy|{share} % of peak, {limiter}-bound|it has {regs} registers and is {limiter}-bound|{gbps} GB/s, {limiter} is next|"
			"{above} x above the floor, the limiter is {limiter}].");
	}
	world_sent(w);
}

void say_review(struct world *w, int candidate, int reviewer, bool pass)
{
	struct candidate *c = &w->candidates[candidate];
	struct message *m =
		world_message(w, KIND_REVIEW, w->members[reviewer].agent->role,
	                      w->members[reviewer].agent->id, w->members[c->author].agent->id);
	struct facts f = open_facts(w);
	const struct problem *p = &w->problem;
	int axis = (int)rng_below(&w->words, (uint64_t)p->op->n_axes);

	fact_change(&f, &w->baseline, &c->sight);
	fact(&f, "id", "%s", c->id);
	fact(&f, "variant", "%s", w->variants[c->sight.config.variant].kernel->variant);
	fact_params(w, &f, "params", &c->sight.config);
	fact(&f, "axis", "%s=%lld", p->op->axes[axis], (long long)p->shape[axis]);
	m->candidate = c->id;
	m->verdict = word_name(pass ? VERDICT_PASS : VERDICT_FAIL);
	c->review_failed = !pass;
	m->text = phrase(
		&f, &w->words,
		pass ? "[{id} reads clean|no objection to {id}|{id} looks sound|I pass {id}|{id}: nothing to hold it up|read {id} twice, fine]"
		       "[, {variant} with {params}| ({params})|; {variant} at {grid} blocks of {block}|, {smem} of shared memory per block]. "
		       "[bounds hold at {axis}|the tail at {axis} is covered|indices stay inside for {axis}|accumulation is where it should be|the launch covers {axis}|"
		       "{dtype} conversions are in the right place|grid of {grid} covers the shape|masks agree with {axis}|barriers and loads are in order]."
		     : "[I would not run {id} as it is|{id} needs another look|{id} worries me|not convinced by {id}|hold {id}|{id}: please check again]"
		       "[, {variant} with {params}| ({params})|; {variant} at {grid} blocks of {block}|, {smem} of shared memory per block]. "
		       "[the handling of {axis} looks off|I cannot follow the index at {axis}|one name does not match its declaration, I think|a bound near {axis} seems off by one|the scale is applied in a strange place|"
		       "something in the tail of {axis} does not add up|an argument looks out of order|the accumulation does not match the mathematics|check the statement after the main loop].");
	world_sent(w);
}

void say_verify(struct world *w, int candidate, int verifier)
{
	const struct candidate *c = &w->candidates[candidate];
	struct message *m = world_message(w, KIND_VERIFY, w->members[verifier].agent->role,
	                                  w->members[verifier].agent->id, lead);
	struct facts f = open_facts(w);
	struct rng r = rng_make(rng_mix2(w->e->task.seed, (uint64_t)candidate), "verify");
	const struct verify *v = &c->result->verify;
	bool pass = c->result->bench.present;
	struct estimate timing;

	m->candidate = c->id;
	m->verdict = word_name(pass ? VERDICT_PASS : VERDICT_FAIL);
	m->trials = 8 << rng_below(&r, 4);
	m->max_abs_err = v->max_abs_err;
	m->max_rel_err = v->max_rel_err;
	fact(&f, "id", "%s", c->id);
	fact(&f, "trials", "%lld", (long long)m->trials);
	fact(&f, "variant", "%s", w->variants[c->sight.config.variant].kernel->variant);
	fact_params(w, &f, "params", &c->sight.config);
	if (pass) {
		/* More trials find a worst case no better than fewer did. */
		m->max_rel_err = num_value(num_round(v->max_rel_err * (1 + 0.3 * rng_unit(&r)), 4));
		m->max_abs_err = num_value(num_round(v->max_abs_err * (1 + 0.3 * rng_unit(&r)), 4));
		if (!model_estimate(w->problem.gpu, &c->sight.resources, &timing))
			bug("a candidate that ran cannot be timed again");
		m->ms = env_again(&w->problem, w->e->task.seed, c->source_hash, timing.us, 1);
		fact_ms(&f, "again", m->ms);
		fact(&f, "rel", "%.2g", m->max_rel_err);
		m->text = phrase(
			&f, &w->words,
			"[{id} holds over {trials} trials|{trials} seeds, {id} agrees every time|{id} confirmed by {trials} trials|I ran {id} {trials} times, it agrees|{id} passes {trials} of {trials}]"
			"[, worst relative error {rel}|; largest relative error {rel}|, edge and stress inputs included|, odd inputs too|; {variant} with {params}]. "
			"[the second timing is {again} ms|timed again at {again} ms|a fresh run gives {again} ms|{again} ms when I time it|my own bench: {again} ms]"
			"[ on an idle {gpu}| at {shape}|, so the number stands|, close to what was claimed|].");
	} else {
		fact(&f, "why", "%s", v->reason ? v->reason : "mismatch");
		m->text = phrase(
			&f, &w->words,
			"[{id} does not hold|{id} disagrees in {trials} trials|I cannot confirm {id}|{trials} trials, {id} is off|{id} fails here too]"
			"[: {why}|, the reason is {why}|; {why} at {shape}|, {why} again]. "
			"[{variant} with {params}|seen with {variant} at {params}|the reference differs on every seed|same outcome on edge inputs|please look at {variant} again].");
	}
	world_sent(w);
}

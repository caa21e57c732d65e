/*
 * env.c - outcomes drawn from the model; what happened is a function of (seed,
 * source) alone.
 */
#include "swarm/env.h"

#include "base/die.h"
#include "base/num.h"
#include "base/rng.h"
#include "episode/schema.h"

struct problem env_problem(const struct task *t)
{
	struct problem p = { .op = t->op, .impl = t->impl, .gpu = t->gpu, .dtype = t->dtype };

	for (int i = 0; i < t->op->n_axes; i++)
		p.shape[i] = t->shape[i];
	return p;
}

double env_baseline_ms(const struct problem *p)
{
	const struct kernel *k = kernel_find(p->op->name, p->impl == IMPL_TRITON, "naive");
	int64_t params[KERNEL_MAX_PARAMS];
	struct binding b;
	struct resources r;
	struct estimate e;

	if (!k)
		bug("op %s has no naive variant for %s", p->op->name, impl_name(p->impl));
	config_bind(p, k, &b);
	config_preset(k, params);
	if (!model_try(p, &b, params, &r, &e))
		bug("naive variant of %s is illegal for a task", p->op->name);
	return num_time(e.us / 1000);
}

/* A draw around `us` that obeys physics: above the launch floor, no faster
 * than the compulsory work at peak rates. Redrawn, never clamped. */
static double draw_ms(const struct problem *p, struct rng *r, double us, double cv)
{
	double floor_us = model_floor_us(p);
	double bytes = (double)p->op->bytes(p->shape, p->dtype), peak = p->gpu->dram_gbps * 1e3;

	for (int i = 0; i < 1000; i++) {
		double ms = num_time(us * (1 + cv * rng_normal(r)) / 1000);

		if (ms * 1000 > floor_us && ms > 0 && bytes / (ms * 1000) < peak)
			return ms;
		/* Near the limit noise only slows: half a sigma more each time. */
		us *= 1 + 0.5 * cv;
	}
	bug("the model is below the physical floor of %s on %s", p->op->name, p->gpu->name);
}

static struct rng outcome_rng(uint64_t seed, uint64_t source_hash, const char *purpose)
{
	return rng_make(rng_mix2(seed, source_hash), purpose);
}

static void verify_pass(const struct problem *p, struct rng *r, struct verify *v)
{
	double u = dtype_round_off(p->dtype), a, n;

	v->present = true;
	v->status = word_name(VERDICT_PASS);
	v->max_abs_err = v->max_rel_err = 0;
	op_tolerance(p->op, p->shape, &a, &n);
	if (a <= 0 && n <= 0)
		return;
	/* Correct kernels sit at 0.3 to 0.8 of the bound. */
	v->max_rel_err = num_value(num_round(u * (2 + a) * (0.3 + 0.5 * rng_unit(r)) * 0.5, 4));
	v->max_abs_err = num_value(num_round(v->max_rel_err * (1 + 2 * rng_unit(r)), 4));
}

static void verify_fail(const struct kernel_fault *f, struct rng *r, struct verify *v)
{
	v->present = true;
	v->status = word_name(VERDICT_FAIL);
	v->reason = f->shows;
	v->max_abs_err = v->max_rel_err = NAN;
	if (word_find(SET_REASON, f->shows) == REASON_NONFINITE)
		return;
	v->max_rel_err = num_value(num_round(num_exp2(-5 + 9 * rng_unit(r)), 4));
	v->max_abs_err = num_value(num_round(num_exp2(-4 + 7 * rng_unit(r)), 4));
}

static void compile_error(const struct trial *t, int line, struct arena *a, struct compile *c)
{
	const char *file = kernel_file_name(t->kernel);
	int at = line + t->fault->says_offset;

	c->status = word_name(COMPILED_ERROR);
	if (t->kernel->triton)
		c->log = arena_printf(a, "  File \"%s\", line %d\n%s", file, at, t->fault->says);
	else
		c->log = arena_printf(a, "%s(%d): error: %s", file, at, t->fault->says);
}

bool env_run(const struct problem *p, uint64_t seed, const struct trial *trial,
             uint64_t source_hash, int fault_line, struct arena *a, struct message *m)
{
	const char *unmet = config_unmet(p->gpu, trial->kernel);
	struct rng r = outcome_rng(seed, source_hash, "outcome");
	struct binding b;
	struct resources res;
	struct estimate e;
	double cv;

	m->compile = (struct compile){ .registers = EP_NULL_INT,
		                       .smem_bytes = EP_NULL_INT,
		                       .spill_bytes = EP_NULL_INT };
	m->verify = (struct verify){ .max_abs_err = NAN, .max_rel_err = NAN };
	m->bench = (struct bench){
		.ms = NAN, .cv = NAN, .gbps = NAN, .tflops = NAN, .occupancy = NAN
	};
	if (trial->fault && trial->fault->compile) {
		m->status = word_name(OUTCOME_COMPILE_ERROR);
		compile_error(trial, fault_line, a, &m->compile);
		return true;
	}
	if (unmet) {
		m->status = word_name(OUTCOME_UNSUPPORTED_ARCH);
		m->compile.status = word_name(COMPILED_UNSUPPORTED);
		m->compile.log = arena_printf(a, "%s needs %s, which %s does not have",
		                              kernel_file_name(trial->kernel), unmet, p->gpu->arch);
		return true;
	}
	config_bind(p, trial->kernel, &b);
	if (!model_try(p, &b, trial->params, &res, &e)) {
		m->status = word_name(OUTCOME_LAUNCH_ERROR);
		m->compile.status = word_name(COMPILED_OK);
		return false;
	}
	m->compile.status = word_name(COMPILED_OK);
	m->compile.registers = e.registers;
	m->compile.smem_bytes = e.smem;
	m->compile.spill_bytes = e.spill;
	if (trial->fault) {
		m->status = word_name(OUTCOME_WRONG_RESULT);
		verify_fail(trial->fault, &r, &m->verify);
		return true;
	}
	m->status = word_name(OUTCOME_OK);
	verify_pass(p, &r, &m->verify);
	cv = model_noise(e.us);
	m->bench.present = true;
	m->bench.ms = draw_ms(p, &r, e.us, cv);
	m->bench.cv = num_value(num_round(cv * (0.7 + 0.6 * rng_unit(&r)), 3));
	m->bench.gbps = num_value((double)p->op->bytes(p->shape, p->dtype) / m->bench.ms / 1e6);
	m->bench.tflops = num_value((double)p->op->flops(p->shape, p->dtype) / m->bench.ms / 1e9);
	m->bench.occupancy = num_value(num_round(e.occupancy, 4));
	m->bench.limiter = limiter_name(e.limiter);
	return true;
}

double env_again(const struct problem *p, uint64_t seed, uint64_t source_hash, double us,
                 int counter)
{
	struct rng r = outcome_rng(rng_mix2(seed, (uint64_t)counter), source_hash, "again");

	return draw_ms(p, &r, us, model_noise(us));
}

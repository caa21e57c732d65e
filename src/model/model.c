/*
 * model.c - see model.h for the formula, constants.def for its constants.
 */
#include "model/model.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

struct constants {
	const char *gpu;
	double dram_share;     /* of the peak that a long stream reaches */
	double saturating_sms; /* share of the SMs that reaches it */
	double latency_factor; /* loaded over unloaded DRAM latency */
	double l2_bytes_clk;
	double tensor_share, issue_share;
	double launch_us, next_launch_us;
};

static const struct constants constants[] = {
#define CONSTANTS(...) { __VA_ARGS__ },
#include "model/constants.def"
#undef CONSTANTS
};

/* Share of the second largest term that does not overlap with the largest. */
static const double overlap_loss = 0.06;
/* Share of the L2 that a wave's working set may use before re-reads miss. */
static const double l2_share = 0.7;
/* What a spilled register costs: stores and reloads around the inner loop.
 * A published GEMM fell from 163 to 35 TFLOPS by spilling (RTX 4090). */
static const double spill_cliff = 4.0;
/* Event jitter in µs and the relative floor of a median of 50 samples. */
static const double jitter_us = 0.03, noise_floor = 0.0015;

static const char *const limiter_names[LIMIT_COUNT] = {
	"memory", "occupancy", "latency", "tensor", "alu", "launch",
};

const char *limiter_name(enum limiter l)
{
	return limiter_names[l];
}

int limiter_from_name(const char *name)
{
	for (int i = 0; i < LIMIT_COUNT; i++) {
		if (strcmp(limiter_names[i], name) == 0)
			return i;
	}
	return -1;
}

static const struct constants *constants_of(const struct gpu *g)
{
	static const struct constants *last;
	static const struct gpu *of;

	if (of == g)
		return last;
	for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
		/* The last row stands for every GPU that has none of its own. */
		if (strcmp(constants[i].gpu, g->name) == 0 || strcmp(constants[i].gpu, "*") == 0) {
			of = g;
			return last = &constants[i];
		}
	}
	bug("no model constants for GPU %s", g->name);
}

static double min2(double a, double b)
{
	return a < b ? a : b;
}

static double max2(double a, double b)
{
	return a > b ? a : b;
}

static double round_up(double x)
{
	return -floor(-x);
}

/* Bytes per µs that `blocks` running blocks draw from DRAM: the peak, what
 * their SMs can draw, and what their bytes in flight sustain (Little), joined
 * by a fourth-power mean so that the knee is round. */
static double bandwidth(const struct gpu *g, const struct constants *c, double blocks,
                        double inflight)
{
	double peak = g->dram_gbps * 1e3 * c->dram_share;
	double active = min2(blocks, g->sms);
	double by_sms = peak * active / (c->saturating_sms * g->sms);
	double latency_us = g->dram_latency * c->latency_factor / g->boost_mhz;
	double by_little = blocks * inflight / latency_us;
	double bound = min2(peak, by_sms), ratio;

	if (by_little <= 0)
		return bound;
	ratio = bound / by_little;
	ratio *= ratio;
	return bound / sqrt(sqrt(1 + ratio * ratio));
}

/* One launch: its times in µs by cause. */
struct times {
	double dram, l2, tensor, issue, serial, fill;
	bool starved; /* bandwidth is limited by bytes in flight */
	double traffic, in_flight;
};

static void memory_time(const struct gpu *g, const struct constants *c, const struct launch *l,
                        double resident, struct times *t)
{
	double slots = resident * g->sms, tiles = (double)l->tiles,
	       workers = min2(slots, (double)l->grid);
	double window = (double)l->once / tiles * min2(tiles, workers);
	double fits = l2_share * g->l2_mb * 1e6;
	double misses = window > fits ? 1 - fits / window : 0;
	double dram = (double)l->once + (double)(l->read - l->once) * misses + (double)l->write;
	double inflight = max2((double)l->inflight, 32), full, rest, whole;

	/* Whole waves run at full width, the rest with the blocks that are left. */
	full = floor(tiles / workers);
	rest = tiles - full * workers;
	whole = bandwidth(g, c, workers, inflight);
	t->dram = dram * (full * workers / tiles) / whole;
	if (rest > 0) {
		double narrow = bandwidth(g, c, rest, inflight);

		/* The tail overlaps with the end of the wave before it. */
		t->dram += dram * (rest / tiles) / (full > 0 ? sqrt(narrow * whole) : narrow);
	}
	t->l2 = (double)(l->read + l->write) / (c->l2_bytes_clk * g->boost_mhz);
	/* L2 is reached through the SMs' ports: fewer SMs, less of it. */
	t->l2 *= max2(1, 0.6 * g->sms / min2(workers, g->sms));
	t->starved = whole < 0.75 * g->dram_gbps * 1e3 * c->dram_share;
	t->in_flight = workers * inflight;
	t->traffic = t->dram + t->l2;
}

static double tensor_time(const struct gpu *g, const struct constants *c, const struct launch *l)
{
	/* The data sheet's peaks are at the tensor clock. fp8 without an fp8 pipe
	 * never comes here: such variants convert and use the fp16 pipe. */
	double us =
		(double)l->tc16 / (g->tc16_tflops * 1e6) + (double)l->tc8i / (g->tc8i_tops * 1e6);

	if (l->tc8f)
		us += g->tc8f_tflops > 0 ? (double)l->tc8f / (g->tc8f_tflops * 1e6)
		                         : (double)l->tc8f / (g->tc16_tflops * 1e6);
	return us / (c->tensor_share * (double)l->eff / 100);
}

static void launch_times(const struct gpu *g, const struct constants *c, const struct launch *l,
                         struct occupancy o, struct times *t)
{
	double tiles = (double)l->tiles, slots = (double)o.blocks * g->sms,
	       workers = min2(slots, (double)l->grid);
	double per_sm = round_up(tiles / g->sms) * g->sms / tiles; /* quantisation, >= 1 */
	double waves = round_up(tiles / workers);

	*t = (struct times){ 0 };
	memory_time(g, c, l, o.blocks, t);
	t->tensor = tensor_time(g, c, l) * per_sm;
	/* One thread instruction per lane and clock; MUFU runs at 16 per SM. */
	t->issue = (double)l->ops / (g->fp32_tflops * 1e6 / 2 * c->issue_share) +
	           (double)l->sfu / (16.0 * g->sms * g->boost_mhz) * 0.8;
	/* A few warps cannot fill the issue slots: about 4 per scheduler do. */
	t->issue *= max2(1, 12 / max2(1, min2(o.blocks, round_up((double)l->grid / g->sms)) *
	                                         (double)((l->block + 31) / 32)));
	t->issue *= per_sm;
	t->serial = waves * (double)l->chain / g->boost_mhz;
	t->fill = min2((double)l->chain, 2 * g->dram_latency) / g->boost_mhz;
}

bool model_estimate(const struct gpu *g, const struct resources *r, struct estimate *out)
{
	const struct constants *c = constants_of(g);
	double longest = -1;

	*out = (struct estimate){ 0 };
	for (int i = 0; i < r->n; i++) {
		const struct launch *l = &r->launch[i];
		int warps = (int)((l->block + 31) / 32),
		    cap = 65536 / (32 * ((warps + 3) / 4 * 4)) / 8 * 8;
		int regs = (int)(l->regs < 1000 ? l->regs : 1000), spill = 0;
		struct occupancy o;
		struct times t;
		double body, second, total, launch;

		if (cap > 255)
			cap = 255;
		if (regs > cap) {
			spill = 4 * (regs - cap);
			regs = cap;
		}
		o = gpu_occupancy(g, (int)l->block, regs, l->smem);
		if (!o.blocks)
			return false;
		launch_times(g, c, l, o, &t);
		if (spill) {
			/* A few spilled values cost a few percent, an accumulator a multiple. */
			double factor = spill <= 32 ? 1.05 : spill_cliff;

			t.tensor *= factor;
			t.issue *= factor;
			t.serial *= spill <= 32 ? 1.02 : 2.0;
			t.l2 *= factor;
		}
		body = max2(max2(t.dram, t.l2), max2(t.tensor, t.issue));
		second = t.dram + t.l2 + t.tensor + t.issue - body;
		body += overlap_loss * min2(second, body) + t.fill;
		total = max2(body, t.serial);
		launch = i == 0 ? c->launch_us : c->next_launch_us;
		out->us += total + launch;
		out->floor_us += launch;
		out->terms.traffic += t.traffic;
		out->terms.serial += t.serial;
		out->terms.tensor += t.tensor;
		out->terms.issue += t.issue;
		out->terms.launches += launch;
		if (spill > out->spill)
			out->spill = spill;
		if (l->smem > out->smem)
			out->smem = l->smem;
		if (total <= longest)
			continue;
		longest = total;
		out->registers = regs;
		out->occupancy = o.fraction;
		out->terms.in_flight = t.in_flight;
		if (t.serial >= body)
			out->limiter = LIMIT_LATENCY;
		else if (t.tensor >= max2(max2(t.dram, t.l2), t.issue))
			out->limiter = LIMIT_TENSOR;
		else if (t.issue >= max2(t.dram, t.l2))
			out->limiter = LIMIT_ALU;
		else if (t.dram >= t.l2 && t.starved)
			out->limiter = LIMIT_OCCUPANCY;
		else
			out->limiter = LIMIT_MEMORY;
	}
	if (out->floor_us > 0.5 * out->us)
		out->limiter = LIMIT_LAUNCH;
	return true;
}

bool model_try(const struct problem *p, struct binding *b, const int64_t *params,
               struct resources *r, struct estimate *out)
{
	return !config_try(p, b, params, r) && model_estimate(p->gpu, r, out);
}

double model_floor_us(const struct problem *p)
{
	const struct gpu *g = p->gpu;
	double written = (double)p->op->bytes_out(p->shape, p->dtype);
	double bytes = (double)p->op->bytes(p->shape, p->dtype) - min2(written, g->l2_mb * 1e6);
	double flops = (double)p->op->flops(p->shape, p->dtype), rate = g->fp32_tflops;

	switch (p->op->pipe) {
	case PIPE_FP32:
		break;
	case PIPE_TENSOR16:
		rate = g->tc16_tflops;
		break;
	case PIPE_TENSOR8I:
		rate = g->tc8i_tops;
		break;
	case PIPE_TENSOR8F:
		rate = g->tc8f_tflops > 0 ? g->tc8f_tflops : g->tc16_tflops;
		break;
	}
	return max2(bytes / (g->dram_gbps * 1e3), flops / (rate * 1e6));
}

bool model_relieves(enum limiter limiter, const struct terms *a, const struct terms *b)
{
	switch (limiter) {
	case LIMIT_MEMORY:
		return b->traffic < 0.95 * a->traffic;
	case LIMIT_OCCUPANCY:
		return b->in_flight > 1.05 * a->in_flight;
	case LIMIT_LATENCY:
		return b->serial < 0.95 * a->serial;
	case LIMIT_TENSOR:
		return b->tensor < 0.95 * a->tensor;
	case LIMIT_ALU:
		return b->issue < 0.95 * a->issue;
	case LIMIT_LAUNCH:
		return b->launches < 0.95 * a->launches ||
		       (b->launches <= a->launches && b->serial < 0.95 * a->serial);
	default:
		return false;
	}
}

double model_noise(double us)
{
	double jitter = jitter_us / us;

	return sqrt(noise_floor * noise_floor + jitter * jitter);
}

/* answer.c - findings in the words of rows. */
#include "gpurun/answer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"
#include "episode/schema.h"
#include "gpurun/host.h"

/* --- numbers ----------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of n sorted numbers, between neighbours linearly. */
static double quantile(const double *x, int n, double q)
{
	double at = q * (n - 1);
	int i = (int)at;

	return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}

void timing_of(const float *ms, int n, struct timing *out)
{
	double x[RUN_MAX_SAMPLES], d[RUN_MAX_SAMPLES];

	*out = (struct timing){ .n = n, .median = NAN, .p10 = NAN, .p90 = NAN, .cv = NAN };
	if (n < 1 || n > RUN_MAX_SAMPLES)
		return;
	for (int i = 0; i < n; i++)
		x[i] = ms[i];
	qsort(x, (size_t)n, sizeof *x, by_size);
	out->median = quantile(x, n, 0.5);
	out->p10 = quantile(x, n, 0.1);
	out->p90 = quantile(x, n, 0.9);
	for (int i = 0; i < n; i++)
		d[i] = x[i] > out->median ? x[i] - out->median : out->median - x[i];
	qsort(d, (size_t)n, sizeof *d, by_size);
	/* The median's standard error is 1.2533 sd / sqrt(n) for normal noise; sd
	 * by the median deviation, which one interrupted sample does not move. */
	out->cv = 1.2533 * 1.4826 * quantile(d, n, 0.5) / sqrt(n) / out->median;
}

static int64_t bytes_of(const struct problem *p)
{
	return p->op->bytes(p->shape, p->dtype);
}

static double peak_tflops(const struct problem *p)
{
	switch (p->op->pipe) {
	case PIPE_TENSOR16:
		return p->gpu->tc16_tflops;
	case PIPE_TENSOR8I:
		return p->gpu->tc8i_tops;
	case PIPE_TENSOR8F:
		return p->gpu->tc8f_tflops > 0 ? p->gpu->tc8f_tflops : p->gpu->tc16_tflops;
	case PIPE_FP32:
		break;
	}
	return p->gpu->fp32_tflops;
}

double answer_impossible(const struct finding *f)
{
	const struct problem *p = f->problem;
	double bytes = (double)bytes_of(p), written = (double)p->op->bytes_out(p->shape, p->dtype);
	double l2 = f->device && f->device->l2_bytes > 0 ? (double)f->device->l2_bytes
	                                                 : p->gpu->l2_mb * 1e6;
	double least, flops;
	struct timing t;

	if (f->run->end != END_ANSWER || f->run->answer.status != RUN_PASSED ||
	    !f->run->answer.samples)
		return 0;
	timing_of(f->run->answer.ms, f->run->answer.samples, &t);
	least = (bytes - (written < l2 ? written : l2)) / p->gpu->dram_gbps / 1e6;
	flops = (double)p->op->flops(p->shape, p->dtype) / peak_tflops(p) / 1e9;
	if (flops > least)
		least = flops;
	/* Not true of NaN either. */
	return t.median > 0 && t.median >= least ? 0 : least > 0 ? least : 1e-6;
}

/*
 * What the kernel is limited by, from what it reaches: at two thirds of a peak
 * that peak; near the empty kernel's time the launch; else too few warps to hide
 * latency if the SMs are mostly empty; else instructions where the SMs are full
 * and the kernel is long enough to fill them; else latency.
 */
static enum word limiter(const struct finding *f, double ms, double occupancy)
{
	const struct problem *p = f->problem;
	double memory = (double)bytes_of(p) / ms / 1e6 / p->gpu->dram_gbps;
	double pipe = (double)p->op->flops(p->shape, p->dtype) / ms / 1e9 / peak_tflops(p);
	bool tensor = p->op->pipe != PIPE_FP32;

	if (f->floor_ms > 0 && ms < 1.5 * f->floor_ms)
		return LIMITER_LAUNCH;
	if (pipe > 0.5 && pipe >= memory)
		return tensor ? LIMITER_TENSOR : LIMITER_ALU;
	if (memory > 0.65)
		return LIMITER_MEMORY;
	if (tensor && pipe > memory && pipe > 0.3)
		return LIMITER_TENSOR;
	if (!isnan(occupancy) && occupancy < 0.3)
		return LIMITER_OCCUPANCY;
	if (memory < 0.25 && occupancy > 0.6 && f->floor_ms > 0 && ms > 10 * f->floor_ms)
		return LIMITER_ALU;
	return LIMITER_LATENCY;
}

/* --- words ------------------------------------------------------------------- */

const char *answer_reason(int reason)
{
	static const enum word words[] = {
		[RUN_LEFT_STREAM] = REASON_LEFT_STREAM,
		[RUN_NO_WORK] = REASON_NO_WORK,
		[RUN_FORBIDDEN_NODE] = REASON_FORBIDDEN_NODE,
		[RUN_NONFINITE] = REASON_NONFINITE,
		[RUN_UNWRITTEN] = REASON_UNWRITTEN,
		[RUN_MISMATCH] = REASON_MISMATCH,
		[RUN_LOW_PRECISION] = REASON_LOW_PRECISION,
		[RUN_INPUT_CHANGED] = REASON_INPUT_CHANGED,
		[RUN_OUT_OF_BOUNDS] = REASON_OUT_OF_BOUNDS,
		[RUN_UNSTABLE] = REASON_UNSTABLE,
		[RUN_SHAPE_SPECIFIC] = REASON_SHAPE_SPECIFIC,
		[RUN_STALE] = REASON_STALE,
		[RUN_FORBIDDEN_SYMBOL] = REASON_FORBIDDEN_SYMBOL,
	};

	if (reason <= REASON_NONE || reason >= RUN_REASONS)
		return word_name(REASON_MISMATCH);
	return word_name(words[reason]);
}

static double error_of(double x)
{
	return x >= 0 && isfinite(x) ? num_value(num_round(x, 4)) : NAN;
}

static void fill_compile(const struct finding *f, struct message *m)
{
	const struct object *o = f->object;
	const struct run_answer *a = &f->run->answer;
	bool answered = f->run->end == END_ANSWER;

	if (o->state == OBJECT_BROKEN) {
		m->compile.status = NULL;
		m->compile.log = o->log;
		return;
	}
	if (o->state != OBJECT_READY) {
		bool lacks = f->unmet || build_lacks_feature(o);

		m->compile.status = word_name(lacks ? COMPILED_UNSUPPORTED : COMPILED_ERROR);
		m->compile.log = o->log;
		return;
	}
	m->compile.status = word_name(COMPILED_OK);
	m->compile.log = *o->log ? o->log : NULL;
	/* ptxas knows all kernels; shared memory asked for at launch the worker alone. */
	if (o->registers >= 0)
		m->compile.registers = o->registers;
	else if (answered && a->registers >= 0)
		m->compile.registers = a->registers;
	if (answered && a->smem_bytes >= 0)
		m->compile.smem_bytes = a->smem_bytes;
	else if (o->smem_bytes >= 0)
		m->compile.smem_bytes = o->smem_bytes;
	if (o->spill_bytes >= 0)
		m->compile.spill_bytes = o->spill_bytes;
	else if (answered && a->local_bytes >= 0)
		m->compile.spill_bytes = a->local_bytes;
}

static void fill_verify(struct message *m, enum word status, const char *reason, double max_abs,
                        double max_rel)
{
	m->verify.present = true;
	m->verify.status = word_name(status);
	m->verify.reason = reason;
	m->verify.max_abs_err = error_of(max_abs);
	m->verify.max_rel_err = error_of(max_rel);
}

static double occupancy_of(const struct finding *f)
{
	const struct run_answer *a = &f->run->answer;

	if (a->registers < 0 || a->smem_bytes < 0 || a->threads < 1 || a->threads > 1024)
		return NAN;
	return gpu_occupancy(f->problem->gpu, a->threads, a->registers, a->smem_bytes).fraction;
}

static void fill_bench(const struct finding *f, struct message *m)
{
	const struct problem *p = f->problem;
	struct timing t;
	double occupancy = occupancy_of(f);

	timing_of(f->run->answer.ms, f->run->answer.samples, &t);
	m->bench.present = true;
	m->bench.ms = num_time(t.median);
	m->bench.cv = num_value(num_round(t.cv, 3));
	m->bench.gbps = num_value((double)bytes_of(p) / m->bench.ms / 1e6);
	m->bench.tflops = num_value((double)p->op->flops(p->shape, p->dtype) / m->bench.ms / 1e9);
	m->bench.occupancy = isnan(occupancy) ? NAN : num_value(num_round(occupancy, 4));
	m->bench.limiter = word_name(limiter(f, m->bench.ms, occupancy));
}

void answer_message(const struct finding *f, struct message *m)
{
	const struct run_answer *a = &f->run->answer;

	message_init(m, KIND_RESULT);
	fill_compile(f, m);
	if (f->object->state == OBJECT_BROKEN) {
		m->status = word_name(OUTCOME_INFRA_ERROR);
		return;
	}
	if (f->object->state != OBJECT_READY) {
		bool lacks = !strcmp(m->compile.status, word_name(COMPILED_UNSUPPORTED));

		m->status = word_name(lacks ? OUTCOME_UNSUPPORTED_ARCH : OUTCOME_COMPILE_ERROR);
		return;
	}
	if (*f->object->forbidden) {
		m->status = word_name(OUTCOME_WRONG_RESULT);
		fill_verify(m, VERDICT_FAIL, word_name(REASON_FORBIDDEN_SYMBOL), NAN, NAN);
		return;
	}
	switch (f->run->end) {
	case END_CRASHED:
		m->status = word_name(OUTCOME_CRASHED);
		return;
	case END_TIMEOUT:
		m->status = word_name(OUTCOME_TIMEOUT);
		return;
	case END_NONE:
	case END_INFRA:
		m->status = word_name(OUTCOME_INFRA_ERROR);
		return;
	case END_ANSWER:
		break;
	}
	switch ((enum run_status)a->status) {
	case RUN_PASSED:
		m->status = word_name(OUTCOME_OK);
		fill_verify(m, VERDICT_PASS, NULL, a->max_abs_err, a->max_rel_err);
		if (a->samples > 0)
			fill_bench(f, m);
		return;
	case RUN_FAILED:
		m->status = word_name(OUTCOME_WRONG_RESULT);
		fill_verify(m, VERDICT_FAIL, answer_reason(a->reason), a->max_abs_err,
		            a->max_rel_err);
		return;
	case RUN_UNCOMPILED:
		m->status = word_name(OUTCOME_COMPILE_ERROR);
		m->compile = (struct compile){ .status = word_name(COMPILED_ERROR),
			                       .log = a->text,
			                       .registers = EP_NULL_INT,
			                       .smem_bytes = EP_NULL_INT,
			                       .spill_bytes = EP_NULL_INT };
		return;
	case RUN_LAUNCH_ERROR:
		m->status = word_name(OUTCOME_LAUNCH_ERROR);
		return;
	case RUN_CRASHED:
		m->status = word_name(OUTCOME_CRASHED);
		return;
	case RUN_INFRA:
		break;
	}
	m->status = word_name(OUTCOME_INFRA_ERROR);
}

/* --- provenance ---------------------------------------------------------------- */

static void add_time(json *j, const char *key, double ms)
{
	if (ms > 0 && isfinite(ms))
		json_add_num(j, key, num_time(ms));
	else
		json_add_null(j, key);
}

static void add_clock(json *j, const char *key, int mhz)
{
	if (mhz > 0)
		json_add_int(j, key, mhz);
	else
		json_add_null(j, key);
}

static void add_text(json *j, const char *key, const char *s)
{
	json_add_str(j, key, s && *s ? s : NULL);
}

json *answer_provenance(const struct finding *f)
{
	const struct run *r = f->run;
	const struct run_answer *a = &r->answer;
	bool answered = r->end == END_ANSWER;
	bool timed = answered && a->status == RUN_PASSED && a->samples > 0;
	struct timing t;
	json *j = json_new_object();
	char hash[17];

	timing_of(a->ms, timed ? a->samples : 0, &t);
	add_text(j, "gpu", f->device ? f->device->gpu : NULL);
	add_text(j, "driver", f->device ? f->device->driver : NULL);
	add_text(j, "cuda", f->device ? f->device->cuda : NULL);
	json_add_str(j, "date", host_date());
	add_clock(j, "clocks_before", answered ? a->sm_mhz_before : -1);
	add_clock(j, "clocks_after", answered ? a->sm_mhz_after : -1);
	json_add_int(j, "samples", t.n);
	add_time(j, "median_ms", t.median);
	add_time(j, "p10_ms", t.p10);
	add_time(j, "p90_ms", t.p90);
	add_time(j, "floor_ms", f->floor_ms);
	add_time(j, "stream_ms", f->stream_ms);
	hash_hex(f->object->source_hash, hash);
	json_add_str(j, "source_hash", hash);
	json_add_str(j, "arch", f->problem->gpu->arch);
	add_text(j, "nvcc", f->object->mode == BUILD_PYTHON ? NULL : build_nvcc_version());
	/* Where it failed, or why nothing can be said. */
	if (*f->object->forbidden)
		json_add_str(j, "note", f->object->forbidden);
	else
		add_text(j, "note", r->end == END_NONE ? NULL : r->text);
	return j;
}

/* --- which GPU ----------------------------------------------------------------- */

/* Whether the device's name has the row's name in it, as a word: "rtx_a6000" is
 * in "NVIDIA RTX A6000", "a10" is not in "NVIDIA A100". */
static bool names(const char *device, const char *row)
{
	size_t n = strlen(row);

	for (const char *p = device; *p; p++) {
		size_t i = 0;

		if (p > device && isalnum((unsigned char)p[-1]))
			continue;
		while (i < n && p[i] &&
		       (row[i] == '_' ? p[i] == ' ' : tolower((unsigned char)p[i]) == row[i]))
			i++;
		if (i == n && !isalnum((unsigned char)p[n]))
			return true;
	}
	return false;
}

const struct gpu *answer_gpu(const struct run_hello *h)
{
	int n;
	const struct gpu *list = gpu_list(&n);

	for (int i = 0; i < n; i++) {
		if (list[i].cc == h->cc && list[i].sms == h->sms && names(h->gpu, list[i].name))
			return &list[i];
	}
	return NULL;
}

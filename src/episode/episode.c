/* episode.c - what every user of the structs needs: nulls, look-up, work. */
#include "episode/episode.h"

#include <stddef.h>
#include <string.h>

#include "base/num.h"

void message_init(struct message *m, enum kind k)
{
	memset(m, 0, offsetof(struct message, params));
	m->params.n = 0;
	m->region.n = 0;
	m->kind = k;
	m->kept = -1;
	m->best_ms = m->prev_best_ms = m->reward = m->speedup = NAN;
	m->max_abs_err = m->max_rel_err = m->ms = NAN;
	m->compile.registers = m->compile.smem_bytes = m->compile.spill_bytes = EP_NULL_INT;
	m->verify.max_abs_err = m->verify.max_rel_err = NAN;
	m->bench.ms = m->bench.cv = m->bench.gbps = m->bench.tflops = m->bench.occupancy = NAN;
}

int episode_agent(const struct episode *e, const char *id)
{
	int n;

	if (!id)
		return -1;
	/* a07 is the seventh, unless the row is a strange one. */
	if (id[0] == 'a' && id[1] && id[2] && !id[3]) {
		n = 10 * (id[1] - '0') + (id[2] - '0') - 1;
		if (n >= 0 && n < e->n_agents && !strcmp(e->agents[n].id, id))
			return n;
	}
	for (int i = 0; i < e->n_agents; i++)
		if (!strcmp(e->agents[i].id, id))
			return i;
	return -1;
}

const struct message *episode_candidate(const struct episode *e, const char *id)
{
	for (int i = 0; id && i < e->n_messages; i++)
		if (e->messages[i].kind == KIND_CANDIDATE && !strcmp(e->messages[i].candidate, id))
			return &e->messages[i];
	return NULL;
}

bool episode_lineage_changes(const struct episode *e, const char *candidate)
{
	const struct message *m = episode_candidate(e, candidate), *parent;

	/* Bounded: a bad row may hold a ring of parents. */
	for (int n = 0; m && n < e->n_messages; n++, m = parent) {
		parent = episode_candidate(e, m->parent);
		if (parent && strcmp(parent->variant, m->variant))
			return true;
	}
	return false;
}

int64_t task_bytes(const struct task *t)
{
	return t->op->bytes(t->shape, t->dtype);
}

int64_t task_flops(const struct task *t)
{
	return t->op->flops(t->shape, t->dtype);
}

double task_peak_tflops(const struct task *t)
{
	const struct gpu *g = t->gpu;

	switch (t->op->pipe) {
	case PIPE_TENSOR16:
		return g->tc16_tflops;
	case PIPE_TENSOR8I:
		return g->tc8i_tops;
	case PIPE_TENSOR8F: /* without fp8 tensor cores it is converted to fp16 */
		return g->tc8f_tflops > 0 ? g->tc8f_tflops : g->tc16_tflops;
	case PIPE_FP32:
		break;
	}
	return g->fp32_tflops;
}

double task_floor_ms(const struct task *t)
{
	/* GB/s and TFLOP/s to per ms: 1e6 bytes, 1e9 operations. */
	double move = (double)task_bytes(t) / (t->gpu->dram_gbps * 1e6);
	double compute = (double)task_flops(t) / (task_peak_tflops(t) * 1e9);

	return num_time(move > compute ? move : compute);
}

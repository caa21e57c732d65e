/*
 * episode.h - an episode as structs: what swarm fills, score reads, rows hold.
 *
 * Strings are borrowed: they belong to the row's tree (when read), to static
 * tables or to the caller's arena (when made), and outlive the struct's use.
 * A null number is NAN, a null integer EP_NULL_INT, a null string NULL.
 */
#ifndef EPISODE_EPISODE_H
#define EPISODE_EPISODE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/gpu.h"
#include "ops/op.h"

#define EP_NULL_INT INT64_MIN

enum {
	EP_MAX_AGENTS = 24, /* 20 workers and roles beside them */
	EP_MAX_MESSAGES = 1000,
	EP_MAX_KEYS = 8,  /* of an open map */
	EP_MAX_VALUES = 8 /* of one region entry */
};

enum kind {
#define KIND(id, name) KIND_##id,
#include "episode/schema.def"
	KIND_COUNT
};

struct map {
	int n;
	const char *key[EP_MAX_KEYS];
	int64_t value[EP_MAX_KEYS];
};

struct region {
	int n;
	const char *key[EP_MAX_KEYS];
	int count[EP_MAX_KEYS];
	int64_t value[EP_MAX_KEYS][EP_MAX_VALUES];
};

struct assignment {
	const char *agent, *variant;
	int64_t tries;
};

struct budget {
	int64_t tries, deadline_s;
};

struct entry {
	int64_t rank;
	const char *agent, *candidate;
	double best_ms;
};

struct compile {
	const char *status; /* ok, error, unsupported */
	/* The compiler's words, or NULL; when read only whether it is NULL counts. */
	const char *log;
	int64_t registers, smem_bytes, spill_bytes; /* null unless status is ok */
};

struct verify {
	bool present;       /* false: printed as null */
	const char *status; /* pass, fail */
	const char *reason; /* why it failed, NULL on pass */
	double max_abs_err, max_rel_err;
};

struct bench {
	bool present;        /* false: printed as null */
	double ms;           /* median, 6 significant digits */
	double cv;           /* relative error of the median */
	double gbps;         /* compulsory bytes / ms */
	double tflops;       /* operations / ms */
	double occupancy;    /* 0 … 1 */
	const char *limiter; /* memory, occupancy, latency, tensor, alu, launch */
};

/* A message of any kind; which members count is said by schema.def. */
struct message {
	int64_t step;
	int64_t t; /* whole seconds since the start */
	enum kind kind;
	const char *role, *from, *to; /* to NULL: everybody */
	const char *text;             /* reading: NULL, see message_text */
	const char *candidate, *parent, *variant, *agent, *status, *verdict;
	const char *source; /* reading: NULL, see message_source */
	int64_t source_len; /* writing: its bytes; 0: up to the NUL */
	double best_ms, prev_best_ms, reward, speedup, max_abs_err, max_rel_err, ms;
	int64_t tries, tries_left, trials;
	int kept; /* 0, 1, -1 null */
	struct budget budget;
	struct compile compile;
	struct verify verify;
	struct bench bench;
	struct cJSON *node; /* reading: the message's object in the row */
	/* The large ones last: message_init clears their counts alone. */
	int n_assignments, n_entries;
	struct map params;
	struct region region;
	struct assignment assignments[EP_MAX_AGENTS];
	struct entry entries[EP_MAX_AGENTS];
};

struct agent {
	const char *id, *role;
	double skill;        /* 0 … 1, hidden from every text */
	int64_t tries, kept; /* null until scored */
	double best_ms, ret; /* null until scored */
};

/* A task row. */
struct task {
	const char *task_id, *split;
	int64_t index;
	uint64_t seed;
	const struct op *op;
	enum impl impl;
	const struct gpu *gpu;
	enum dtype dtype;
	int64_t shape[OP_MAX_AXES]; /* in the op's order */
};

struct episode {
	struct task task;
	const char *scenario;
	int n_agents; /* specialists; the lead is not counted */
	struct agent agents[EP_MAX_AGENTS];
	struct assignment assignments[EP_MAX_AGENTS]; /* the plan's */
	int n_assignments;
	double baseline_ms, best_ms, speedup;
	int64_t elapsed_s;
	const char *env, *scheme;
	double ret;
	int n_messages;
	struct message *messages; /* EP_MAX_MESSAGES of them, the caller's */
};

const char *kind_name(enum kind k);
int kind_from_name(const char *name); /* -1 unknown */

/* A message of that kind whose every other field is null (integers that cannot
 * be null: 0). */
void message_init(struct message *m, enum kind k);

/* The agent's index in e->agents, or -1 (lead, env, unknown, NULL). */
int episode_agent(const struct episode *e, const char *id);

/* The message that sent the candidate, NULL if none did (or id is NULL). */
const struct message *episode_candidate(const struct episode *e, const char *id);
/* Whether the candidate's line of descent changes variant anywhere; the
 * baseline, from which every line starts, does not count. */
bool episode_lineage_changes(const struct episode *e, const char *candidate);

/* Compulsory bytes and operations of the task, and the time that they take at
 * the GPU's peak rates (ms, rounded): no kernel is faster. */
int64_t task_bytes(const struct task *t);
int64_t task_flops(const struct task *t);
double task_peak_tflops(const struct task *t); /* of the pipe that the op runs on */
double task_floor_ms(const struct task *t);

#endif

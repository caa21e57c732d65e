/*
 * schema.h - schema.def as tables: fields in printed order, closed
 * vocabularies, scenarios.
 */
#ifndef EPISODE_SCHEMA_H
#define EPISODE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "episode/episode.h"

/* What a value is. From FT_ASSIGNMENTS on, the type is a fixed object (or an
 * array of them) with fields of its own: schema_part. */
enum field_type {
	FT_STR,
	FT_NSTR,
	FT_TEXT,
	FT_NTEXT,
	FT_SOURCE,
	FT_INT,
	FT_NINT,
	FT_NUM,
	FT_NNUM,
	FT_TIME,
	FT_NTIME,
	FT_NBOOL,
	FT_KINDNAME,
	FT_MAP,
	FT_REGION,
	FT_ASSIGNMENTS,
	FT_BUDGET,
	FT_COMPILE,
	FT_VERIFY,
	FT_BENCH,
	FT_ENTRIES,
	FT_AGENTS,
	FT_MESSAGES,
	FT_TASK,
	FT_TOLERANCE,
	FT_GPU_FACTS,
	FT_EPISODE,
	FT_HOLDOUT, /* whole rows */
	FT_COUNT
};

struct field {
	const char *key;
	enum field_type type;
	size_t offset; /* in its struct; 0 for fields without one */
};

/* The fields of a kind behind the envelope (schema_part(FT_MESSAGES)), or of a
 * fixed object; *n receives the count. Static lifetime. */
const struct field *schema_kind(enum kind k, int *n);
const struct field *schema_part(enum field_type part, int *n);

/* Closed vocabularies. A word belongs to one set; OUTCOME_OK … are its words. */
enum word_set {
	SET_ROLE,
	SET_OUTCOME,
	SET_COMPILED,
	SET_VERDICT,
	SET_REASON,
	SET_LIMITER,
	SET_SPLIT,
	SET_ORIGIN,
	SET_HELD
};

enum word {
#define WORD(set, id, name) set##_##id,
#include "episode/schema.def"
	WORD_COUNT
};

const char *word_name(enum word w);
/* -1 if the set has no such word; name may be NULL. */
int word_find(enum word_set set, const char *name);

/* How many specialists a scenario has (either may be NULL); false for an
 * unknown name. */
bool scenario_agents(const char *name, int *min, int *max);
/* Name of the i-th scenario, NULL behind the last. */
const char *scenario_name(int i);

#endif

/* schema.c - tables made from schema.def. */
#include "episode/schema.h"

#include <string.h>

#include "base/die.h"

static const char *const kind_names[KIND_COUNT] = {
#define KIND(id, name) [KIND_##id] = name,
#include "episode/schema.def"
};

/* Fields of one owner (a kind or a part) stand together, in printed order. */
static const struct field kind_fields[] = {
#define FIELD(kind, key, type, member) { key, FT_##type, offsetof(struct message, member) },
#include "episode/schema.def"
};

static const unsigned char kind_owner[] = {
#define FIELD(kind, key, type, member) KIND_##kind,
#include "episode/schema.def"
};

static const struct field part_fields[] = {
#define PART(part, tag, key, type, member) { key, FT_##type, offsetof(struct tag, member) },
#define BARE(part, key, type)              { key, FT_##type, 0 },
#include "episode/schema.def"
};

static const unsigned char part_owner[] = {
#define PART(part, tag, key, type, member) FT_##part,
#define BARE(part, key, type)              FT_##part,
#include "episode/schema.def"
};

static const struct {
	enum word_set set;
	const char *name;
} words[WORD_COUNT] = {
#define WORD(set, id, name) { SET_##set, name },
#include "episode/schema.def"
};

static const struct {
	const char *name;
	int min, max;
} scenarios[] = {
#define SCENARIO_AGENTS(name, min, max) { name, min, max },
#include "episode/schema.def"
};

#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

struct range {
	int first, n;
};

/* First index and length of each owner's run. */
static void find_ranges(const unsigned char *owner, int n, struct range *out)
{
	for (int i = 0; i < n; i++) {
		if (out[owner[i]].n++ == 0)
			out[owner[i]].first = i;
		else if (owner[i] != owner[i - 1])
			bug("schema.def: fields of an owner stand apart at field %d", i);
	}
}

const struct field *schema_kind(enum kind k, int *n)
{
	static struct range range[KIND_COUNT];

	if (!range[0].n)
		find_ranges(kind_owner, LEN(kind_owner), range);
	*n = range[k].n;
	return kind_fields + range[k].first;
}

const struct field *schema_part(enum field_type part, int *n)
{
	static struct range range[FT_COUNT];

	if (!range[FT_MESSAGES].n)
		find_ranges(part_owner, LEN(part_owner), range);
	*n = range[part].n;
	return part_fields + range[part].first;
}

const char *kind_name(enum kind k)
{
	return kind_names[k];
}

int kind_from_name(const char *name)
{
	for (int k = 0; k < KIND_COUNT; k++)
		if (!strcmp(kind_names[k], name))
			return k;
	return -1;
}

const char *word_name(enum word w)
{
	return words[w].name;
}

int word_find(enum word_set set, const char *name)
{
	if (!name)
		return -1;
	for (int w = 0; w < WORD_COUNT; w++)
		if (words[w].set == set && !strcmp(words[w].name, name))
			return w;
	return -1;
}

bool scenario_agents(const char *name, int *min, int *max)
{
	for (int i = 0; i < LEN(scenarios); i++)
		if (!strcmp(scenarios[i].name, name)) {
			if (min)
				*min = scenarios[i].min;
			if (max)
				*max = scenarios[i].max;
			return true;
		}
	return false;
}

const char *scenario_name(int i)
{
	return i >= 0 && i < LEN(scenarios) ? scenarios[i].name : NULL;
}

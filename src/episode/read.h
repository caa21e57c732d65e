/*
 * read.h - rows into structs, each value with the type that schema.def says.
 *
 * Strings are borrowed from the row's tree. A fault names its path:
 * "field 'messages[12].bench.ms' is no number".
 */
#ifndef EPISODE_READ_H
#define EPISODE_READ_H

#include "episode/episode.h"
#include "row/row.h"

/* What the reader objects to. The last two only when it is asked to collect. */
enum read_fault { READ_MISSING, READ_TYPE, READ_VALUE, READ_UNKNOWN_KEY, READ_KEY_ORDER };

/* Where faults go when a reader shall not stop at the first one. */
struct read_faults {
	void (*say)(void *arg, enum read_fault fault, const char *path, const char *what);
	void *arg;
};

/* An episode row, scored or not. e->messages is the caller's array of
 * EP_MAX_MESSAGES. Fails the row at the first fault if `faults` is NULL; else
 * says each, checks unknown keys and key order too, and returns how many there
 * were: only after 0 is the whole episode filled. */
int episode_read(const struct row *r, struct episode *e, const struct read_faults *faults);

/* A task row (planned or not, hold-out or not): known op, impl, gpu, dtype, a
 * legal shape that fits into the GPU, arch as the GPU's. Fails the row. */
void task_read(const struct row *r, struct task *t);
/* A hold-out row with all its keys; faults as above. */
int holdout_read(const struct row *r, struct task *t, const struct read_faults *faults);

/* Whether the row has been planned; if so, scenario, n_agents, agents (id,
 * role, skill) and assignments can be read. Fails the row. */
bool plan_present(const struct row *r);
void plan_read(const struct row *r, struct episode *e);

/* A bare candidate: what `space` prints and --candidates takes. */
struct candidate_row {
	struct task task; /* without task_id, index, seed, split */
	const char *variant;
	struct map params;
	const char *fault;  /* NULL: none */
	const json *source; /* NULL: ours, to be rendered; else row_text */
};

void candidate_read(const struct row *r, struct candidate_row *c);

/* The bytes of a read message's prose or source; *len receives the length.
 * NULL if its kind has none. Valid as row_text says. */
const char *message_text(const struct row *r, const struct message *m, size_t *len);
const char *message_source(const struct row *r, const struct message *m, size_t *len);

#endif

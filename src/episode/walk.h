/*
 * walk.h - what check's parts share while they walk an episode (private to
 * check.c, check_env.c and check_words.c).
 */
#ifndef EPISODE_WALK_H
#define EPISODE_WALK_H

#include "episode/replay.h"
#include "episode/rules.h"
#include "row/row.h"

enum { MAX_TIMES = 8 * EP_MAX_MESSAGES };

struct walk {
	const struct row *r;
	const struct episode *e;
	const struct objector *o;
	int i;                            /* the message at hand, not yet taken */
	struct replay past;               /* heard: mentions in texts included */
	uint64_t source[EP_MAX_MESSAGES]; /* hash, per fact */
	int mend[EP_MAX_AGENTS];          /* fact whose review failed, or -1 */
	/* Every time in ms that somebody has seen, and who. */
	int n_times;
	struct {
		double ms;
		uint32_t who;
	} time[MAX_TIMES];
};

/* check_env.c: what env says, and numbers in general. */
void walk_result(struct walk *w, const struct message *m);
void walk_digits(struct walk *w, const struct message *m);

/* check_words.c. */
/* A text against what its author has seen; then its audience has seen it. */
void walk_text(struct walk *w, const struct message *m);
/* A candidate's source: words, launcher, and whether its author knew it. */
void walk_source(struct walk *w, const struct message *m);
void walk_time(struct walk *w, double ms, uint32_t who);

#endif

/*
 * replay.h - who knew what when: an episode taken message by message.
 *
 * The rules of rewards that depend on order live here (prev_best_ms, improved,
 * the team's best), as do visibility and what is true of a candidate. The
 * player uses the same code as the referee for what its agents may know; it
 * never decides what is paid.
 */
#ifndef EPISODE_REPLAY_H
#define EPISODE_REPLAY_H

#include "episode/episode.h"

/* Who can know something: the agents 0 … n_agents-1, and the lead. */
enum { WHO_LEAD = EP_MAX_AGENTS, WHO_COUNT, WHO_NOBODY = -1 };

/* What is true of a candidate, whoever knows it. Message numbers are -1 for
 * what has not happened. */
struct fact {
	const char *id;
	int author; /* index in e->agents, or WHO_NOBODY */
	int sent, reviewed, result, verified;
	double ms; /* of a verified and timed result, else NAN */
};

struct replay {
	const struct episode *e;
	int n; /* messages taken */
	int n_facts;
	struct fact fact[EP_MAX_MESSAGES];
	/* Bit 1 << who: has heard of the candidate; knows its time. */
	uint32_t heard[EP_MAX_MESSAGES], heard_ms[EP_MAX_MESSAGES];
	double prev_best[EP_MAX_AGENTS]; /* README, Rewards: for the next result */
	double best[EP_MAX_AGENTS];      /* least verified time, NAN if none */
	int best_fact[EP_MAX_AGENTS];
	int64_t tries[EP_MAX_AGENTS], kept[EP_MAX_AGENTS];
	double team_best; /* min(baseline, every verified time) */
};

/* Before the first message. e->baseline_ms and e->agents must be set; messages
 * may still be made while the replay goes on. */
void replay_start(struct replay *rp, const struct episode *e);
/* Takes message e->messages[rp->n]. Names that mean nothing are skipped. */
void replay_take(struct replay *rp);

/* Index of a candidate by its id, or -1. */
int replay_fact(const struct replay *rp, const char *candidate);
/* Index among WHO_*: an agent, the lead, or WHO_NOBODY (env, unknown, NULL). */
int replay_who(const struct episode *e, const char *id);
/* The set of those who see a message: from, to, or everybody. */
uint32_t replay_audience(const struct episode *e, const struct message *m);

/* A result of verified and timed work. */
bool message_timed(const struct message *m);
/* README, Rewards: timed, and faster than prev_best by more than noise. */
bool message_improves(const struct message *m, double prev_best);

#endif

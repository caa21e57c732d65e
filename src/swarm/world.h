/*
 * world.h - the state of an episode being played, shared by the scenarios.
 *
 * Time is a queue of events. An agent thinks, submits, waits for the one GPU,
 * reads the result and thinks again while it has tries. Scenarios hook into
 * that loop; what an agent may know is asked of the replay (episode/replay.h),
 * never of the world.
 */
#ifndef SWARM_WORLD_H
#define SWARM_WORLD_H

#include "base/arena.h"
#include "base/rng.h"
#include "episode/episode.h"
#include "episode/replay.h"
#include "model/model.h"
#include "ops/config.h"
#include "swarm/phrase.h"

enum { MAX_CANDIDATES = 400, MAX_VARIANTS = 32 };

/* Why a candidate looks as it does: what the wording talks about. */
enum move {
	MOVE_START,   /* from the baseline, nothing known yet */
	MOVE_PARAM,   /* one parameter, a step */
	MOVE_VARIANT, /* another variant */
	MOVE_REPAIR   /* the same configuration after a failure */
};

struct variant {
	const struct kernel *kernel;
	struct binding binding;
	const char *unmet;                /* a feature the GPU lacks, or NULL */
	bool any;                         /* some configuration is legal */
	int64_t legal[KERNEL_MAX_PARAMS]; /* one that is */
};

struct config {
	int variant; /* index in the world */
	int64_t params[KERNEL_MAX_PARAMS];
};

/* A configuration with what its code shows, before it has run. */
struct sight {
	struct config config;
	struct terms terms;
	struct resources resources;
};

struct candidate {
	const char *id;
	int author, parent; /* parent -1: the baseline */
	struct sight sight;
	const struct kernel_fault *fault;
	uint64_t key; /* of configuration and fault: the source's identity */
	uint64_t source_hash;
	int fault_line;
	enum move move;
	int param;                    /* MOVE_PARAM: which */
	int limiter;                  /* the limiter it was aimed at, or -1 */
	const struct message *result; /* NULL until there is one */
	bool review_failed;
};

/* One agent's own state. */
struct member {
	struct agent *agent;
	int variant;                      /* assigned; -1: free */
	int home;                         /* the one it was assigned first */
	unsigned mask[KERNEL_MAX_PARAMS]; /* its region: allowed values, by bit */
	int tries;                        /* left */
	int base;                         /* the candidate it builds on, -1: the baseline */
	int last;                         /* its last candidate, -1 none */
	int limiter;                      /* that its last timed result named, -1 unknown */
	bool busy;                        /* thinking, or waiting for a result */
	struct rng rng;
};

struct world;

struct scenario {
	const char *name;
	int min_agents, max_agents;
	int64_t last_leg; /* seconds from a last candidate to the verdict, with room */
	double wander;    /* chance to look at a variant that is nobody's order */
	/* Roles and assignments of e->agents[0 … n_agents). */
	void (*plan)(struct world *w);
	void (*start)(struct world *w);
	/* Hooks; NULL: the default. A candidate has been sent (default: to the
	 * GPU); its result has arrived; nobody is busy any more. */
	void (*submitted)(struct world *w, int candidate);
	void (*resulted)(struct world *w, int candidate);
	void (*idle)(struct world *w);
	/* A deferred call of world_later. */
	void (*call)(struct world *w, int what, int arg);
};

struct event {
	int64_t t;
	int seq;
	enum { EVENT_THOUGHT, EVENT_RESULT, EVENT_CALL } type;
	int a, b;
};

struct world {
	struct episode *e;
	const struct scenario *scenario;
	struct problem problem;
	struct arena *arena;
	struct rng rng;   /* the lead's and the scenario's draws */
	struct rng words; /* the wording's */
	struct replay replay;
	struct facts common; /* what everybody knows */
	int64_t now, gpu_free, deadline;
	int n_variants;
	struct variant variants[MAX_VARIANTS];
	int n_members;
	struct member members[EP_MAX_AGENTS];
	int n_candidates;
	struct candidate candidates[MAX_CANDIDATES];
	struct sight baseline;
	int n_events, seq;
	struct event events[4 * MAX_CANDIDATES];
	int round;     /* the scenario's own */
	int reserve;   /* tries the lead has kept back */
	int emergency; /* more of them, for an episode that would end too early */
	int state[16]; /* the scenario's own */
};

/* world.c */
/* An agent has `tries` more and begins to think. */
void world_give(struct world *w, int member, int tries);
/* Whether a candidate sent now can still be run before the deadline. */
bool world_has_time(const struct world *w);
/* To the GPU, not before `ready`. */
void world_run(struct world *w, int candidate, int64_t ready);
void world_later(struct world *w, int64_t seconds, int what, int arg);
/* A new message at the present time; fields of its kind are the caller's. */
struct message *world_message(struct world *w, enum kind kind, const char *role, const char *from,
                              const char *to);
/* The message is complete: the replay takes it. */
void world_sent(struct world *w);
/* Minutes of thought: log-normal, median `minutes`. */
int64_t world_think(struct rng *r, double minutes);
int world_member_of(const struct world *w, const char *role, int nth); /* -1 */
/* The candidate with the least time among those that ran; -1 none. */
int world_leader(const struct world *w);
/* The agents ordered by their least verified time; returns how many have one. */
int world_ranking(const struct world *w, int *members);
double world_ms(const struct world *w, int candidate); /* NAN: not timed */
double world_prev_best(const struct world *w, int member);

/* lead.c: what the lead does in more than one scenario. */
/* Assignments of `tries` each: the assignable variants in turn, in an order of
 * the lead's choosing; `one` gives everybody the same. Agents of other roles
 * than workers and proposers get none. */
void lead_assign(struct world *w, int tries, bool one);
/* The plan message, then a dispatch to each assigned agent, who begins. Agents
 * that share a variant get slices of it. */
void lead_open(struct world *w, int reserve);
/* Spends up to n of the reserve on a member; returns the tries it got. */
int lead_spend(struct world *w, int member, int n);
/* Leaderboard and, if there is a new leader, its merge. Returns the leader. */
int lead_take_stock(struct world *w);
/* Sends a member to the leader (or, without one, to some other variant) with
 * up to n tries of the reserve. */
void lead_redirect(struct world *w, int member, int leader, int n);
/* Whether another round is due: tries in reserve and time, or too early to
 * stop (a lead that would end within the hour finds tries for another). */
bool lead_goes_on(struct world *w);
/* Last leaderboard and verdict; the scenario is over. */
void lead_close(struct world *w);
bool lead_closed(const struct world *w);
/* A status of the member at the end of its tries, more often than not. */
void lead_hears(struct world *w, int member);

/* search.c */
/* Reads a problem's variants and finds a legal configuration of each. */
void search_variants(struct world *w);
/* The next candidate of a member, appended to w->candidates; -1 if it has
 * nothing new to try. */
int search_propose(struct world *w, int member);
/* A member learns of a candidate as something to build on. */
void search_adopt(struct world *w, int member, int candidate);
/* The region as it is published. */
void search_region(const struct world *w, int member, struct region *out);
/* All values of all parameters; or one part of so many: the two parameters
 * with the most values are dealt out in turn. */
void search_whole_region(struct world *w, int member);
void search_slice(struct world *w, int member, int part, int of);
/* Variants a lead may hand out: needs met, some configuration legal, not
 * naive unless there is nothing else. Returns the count. */
int search_assignable(const struct world *w, int *variants);

/* speech.c: the messages, each composed from what its author has seen. */
/* Once, when the baseline is known: the facts of the task, the data sheet. */
void speech_open(struct world *w);
void say_plan(struct world *w);
void say_dispatch(struct world *w, int member, int tries);
void say_candidate(struct world *w, int candidate);
void say_status(struct world *w, int member);
void say_leaderboard(struct world *w);
void say_merge(struct world *w, int candidate);
void say_redirect(struct world *w, int member, int candidate, int tries);
void say_handoff(struct world *w, int candidate, int from, int to);
void say_review(struct world *w, int candidate, int reviewer, bool pass);
void say_verify(struct world *w, int candidate, int verifier);
void say_verdict(struct world *w);

#endif

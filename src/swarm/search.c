/*
 * search.c - how an agent finds its next candidate.
 *
 * It stands on the best configuration it knows and looks at that one's
 * neighbours: a parameter one step up or down, or another variant. A move
 * against the limiter is a neighbour whose code, by its own counts, relieves
 * what the agent's last result named; the model's time is never asked. Skill
 * decides how often an agent looks at all, how well it chooses, and how often
 * it slips.
 */
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "episode/schema.h"
#include "swarm/world.h"

enum { MAX_NEIGHBOURS = 96 };

struct neighbour {
	struct sight sight;
	enum move move;
	int param;
};

/* Whether the configuration can run on this problem; fills the sight. */
static bool look(struct world *w, const struct config *c, struct sight *out)
{
	struct variant *v = &w->variants[c->variant];
	struct estimate e;

	out->config = *c;
	if (!model_try(&w->problem, &v->binding, c->params, &out->resources, &e))
		return false;
	out->terms = e.terms;
	return true;
}

static void find_legal(struct world *w, int variant)
{
	struct variant *v = &w->variants[variant];
	struct config c = { .variant = variant };
	struct sight s;
	bool more = true;

	config_preset(v->kernel, c.params);
	if (!look(w, &c, &s)) {
		for (config_first(v->kernel, c.params); more && !look(w, &c, &s);
		     more = config_next(v->kernel, c.params))
			;
	}
	v->any = more;
	memcpy(v->legal, c.params, sizeof v->legal);
}

void search_variants(struct world *w)
{
	const struct problem *p = &w->problem;
	int n;
	const struct kernel *const *list = kernel_list(p->op->name, p->impl == IMPL_TRITON, &n);

	w->n_variants = 0;
	for (int i = 0; i < n && w->n_variants < MAX_VARIANTS; i++) {
		struct variant *v = &w->variants[w->n_variants];

		if (!kernel_has_dtype(list[i], dtype_name(p->dtype)))
			continue;
		v->kernel = list[i];
		v->unmet = config_unmet(p->gpu, list[i]);
		config_bind(p, list[i], &v->binding);
		find_legal(w, w->n_variants++);
	}
	w->baseline.config.variant = 0;
	config_preset(w->variants[0].kernel, w->baseline.config.params);
	if (strcmp(w->variants[0].kernel->variant, "naive") != 0 ||
	    !look(w, &w->baseline.config, &w->baseline))
		bug("no legal baseline for %s", p->op->name);
}

int search_assignable(const struct world *w, int *variants)
{
	int n = 0;

	for (int i = 1; i < w->n_variants; i++) {
		if (w->variants[i].any && !w->variants[i].unmet)
			variants[n++] = i;
	}
	if (!n)
		variants[n++] = 0;
	return n;
}

void search_whole_region(struct world *w, int member)
{
	struct member *m = &w->members[member];

	for (int i = 0; i < KERNEL_MAX_PARAMS; i++)
		m->mask[i] = ~0u;
}

/* Values of parameter p whose turn it is; all if there are fewer parts. */
static unsigned deal(const struct kernel *k, int p, int part, int of)
{
	unsigned mask = 0;

	for (int i = 0; i < k->params[p].n; i++) {
		if (of < 2 ||
		    i % (of < k->params[p].n ? of : k->params[p].n) == part % k->params[p].n)
			mask |= 1u << i;
	}
	return mask ? mask : ~0u;
}

void search_slice(struct world *w, int member, int part, int of)
{
	struct member *m = &w->members[member];
	const struct kernel *k = w->variants[m->variant].kernel;
	int first = -1, second = -1;

	search_whole_region(w, member);
	for (int i = 0; i < k->n_params; i++) {
		if (first < 0 || k->params[i].n > k->params[first].n) {
			second = first;
			first = i;
		} else if (second < 0 || k->params[i].n > k->params[second].n) {
			second = i;
		}
	}
	if (first < 0)
		return;
	m->mask[first] = deal(k, first, part, of);
	if (second >= 0 && of > k->params[first].n)
		m->mask[second] = deal(k, second, part / k->params[first].n,
		                       (of + k->params[first].n - 1) / k->params[first].n);
}

void search_region(const struct world *w, int member, struct region *out)
{
	const struct member *m = &w->members[member];
	const struct kernel *k = w->variants[m->variant].kernel;

	out->n = k->n_params;
	for (int i = 0; i < k->n_params; i++) {
		out->key[i] = k->params[i].name;
		out->count[i] = 0;
		for (int j = 0; j < k->params[i].n; j++) {
			if (m->mask[i] >> j & 1)
				out->value[i][out->count[i]++] = k->params[i].value[j];
		}
	}
}

static uint64_t source_key(const struct world *w, const struct config *c,
                           const struct kernel_fault *f)
{
	const struct kernel *k = w->variants[c->variant].kernel;
	uint64_t h = hash_str(k->variant);

	for (int i = 0; i < k->n_params; i++)
		h = rng_mix2(h, (uint64_t)c->params[i]);
	return f ? rng_mix2(h, hash_str(f->name)) : h;
}

/* Has the member sent or been shown a candidate with this source? */
static bool knows(const struct world *w, int member, uint64_t key)
{
	for (int i = 0; i < w->n_candidates; i++) {
		if (w->candidates[i].key == key &&
		    (w->candidates[i].author == member || (w->replay.heard[i] >> member & 1)))
			return true;
	}
	return false;
}

static int value_index(const struct kernel_param *a, int64_t value)
{
	for (int i = 0; i < a->n; i++) {
		if (a->value[i] == value)
			return i;
	}
	return 0;
}

static bool allowed(const struct world *w, const struct member *m, int variant, int param,
                    int value)
{
	return variant != m->variant || (m->mask[param] >> value & 1) || w->variants[variant].unmet;
}

static void add(struct world *w, int member, struct neighbour *list, int *n, const struct config *c,
                enum move move, int param)
{
	struct neighbour *nb = &list[*n];

	if (*n == MAX_NEIGHBOURS || knows(w, member, source_key(w, c, NULL)) ||
	    !look(w, c, &nb->sight))
		return;
	/* The baseline itself is everybody's. */
	if (source_key(w, c, NULL) == source_key(w, &w->baseline.config, NULL))
		return;
	nb->move = move;
	nb->param = param;
	++*n;
}

/* A parameter one allowed value up or down from `from`. */
static void add_steps(struct world *w, int member, const struct config *from,
                      struct neighbour *list, int *n)
{
	const struct member *m = &w->members[member];
	const struct kernel *k = w->variants[from->variant].kernel;

	for (int p = 0; p < k->n_params; p++) {
		const struct kernel_param *a = &k->params[p];
		int at = value_index(a, from->params[p]);

		for (int step = -1; step <= 1; step += 2) {
			struct config c = *from;
			int i;

			for (i = at + step; i >= 0 && i < a->n && !allowed(w, m, c.variant, p, i);
			     i += step)
				;
			if (i < 0 || i >= a->n)
				continue;
			c.params[p] = a->value[i];
			add(w, member, list, n, &c, MOVE_PARAM, p);
		}
	}
}

/* Some configurations of a variant to enter it by: the cautious ones, which
 * lie in the lower half of each parameter's values, more often than not. */
static void add_entries(struct world *w, int member, int variant, int draws, struct neighbour *list,
                        int *n)
{
	struct member *m = &w->members[member];
	const struct variant *v = &w->variants[variant];
	const struct kernel *k = v->kernel;
	int before = *n;

	if (!v->any)
		return;
	for (int d = 0; d < 12 && *n < before + draws; d++) {
		struct config c = { .variant = variant };

		for (int p = 0; p < k->n_params; p++) {
			const struct kernel_param *a = &k->params[p];
			int span = rng_unit(&m->rng) < 0.6 ? (a->n + 1) / 2 : a->n;
			int i = (int)rng_below(&m->rng, (uint64_t)span);

			while (i < a->n - 1 && !allowed(w, m, variant, p, i))
				i++;
			while (i > 0 && !allowed(w, m, variant, p, i))
				i--;
			c.params[p] = a->value[i];
		}
		add(w, member, list, n, &c, MOVE_VARIANT, -1);
	}
	if (*n == before) {
		struct config c = { .variant = variant };

		memcpy(c.params, v->legal, sizeof c.params);
		add(w, member, list, n, &c, MOVE_VARIANT, -1);
	}
}

static double relief(int limiter, const struct terms *a, const struct terms *b)
{
	switch ((enum limiter)limiter) {
	case LIMIT_MEMORY:
		return a->traffic / (b->traffic + 1e-9);
	case LIMIT_OCCUPANCY:
		return b->in_flight / (a->in_flight + 1e-9);
	case LIMIT_LATENCY:
		return a->serial / (b->serial + 1e-9);
	case LIMIT_TENSOR:
		return a->tensor / (b->tensor + 1e-9);
	case LIMIT_ALU:
		return a->issue / (b->issue + 1e-9);
	default:
		return (a->launches + a->serial) / (b->launches + b->serial + 1e-9);
	}
}

static bool any_relief(const struct member *m, const struct sight *from,
                       const struct neighbour *list, int n)
{
	for (int i = 0; i < n; i++) {
		if (model_relieves((enum limiter)m->limiter, &from->terms, &list[i].sight.terms))
			return true;
	}
	return false;
}

/* Index of the neighbour to go to; *aimed tells whether it is one against the
 * limiter. */
static int choose(struct world *w, struct member *m, const struct sight *from,
                  const struct neighbour *list, int n, bool *aimed)
{
	double skill = m->agent->skill;
	int good[MAX_NEIGHBOURS], n_good = 0, best = 0;

	*aimed = false;
	(void)w;
	if (m->limiter < 0 || rng_unit(&m->rng) > 0.6 + 0.4 * skill)
		return (int)rng_below(&m->rng, (uint64_t)n);
	for (int i = 0; i < n; i++) {
		if (model_relieves((enum limiter)m->limiter, &from->terms, &list[i].sight.terms))
			good[n_good++] = i;
	}
	if (!n_good)
		return (int)rng_below(&m->rng, (uint64_t)n);
	*aimed = true;
	if (rng_unit(&m->rng) > skill)
		return good[rng_below(&m->rng, (uint64_t)n_good)];
	for (int i = 1; i < n_good; i++) {
		if (relief(m->limiter, &from->terms, &list[good[i]].sight.terms) >
		    relief(m->limiter, &from->terms, &list[good[best]].sight.terms))
			best = i;
	}
	return good[best];
}

/* A slip: one of the kernel's faults that holds for the configuration. */
static const struct kernel_fault *slip(struct world *w, int member, const struct config *c,
                                       double chance)
{
	struct member *m = &w->members[member];
	struct variant *v = &w->variants[c->variant];
	const struct kernel *k = v->kernel;
	int fit[64], n = 0;
	bool compile;

	if (rng_unit(&m->rng) >= chance)
		return NULL;
	compile = rng_unit(&m->rng) < 0.58;
	for (int i = 0; i < k->n_faults && n < 64; i++) {
		if (k->faults[i].compile == compile &&
		    config_fault_applies(&v->binding, c->params, &k->faults[i]) &&
		    !knows(w, member, source_key(w, c, &k->faults[i])))
			fit[n++] = i;
	}
	return n ? &k->faults[fit[rng_below(&m->rng, (uint64_t)n)]] : NULL;
}

static bool failed(const struct message *result)
{
	int status = result ? word_find(SET_OUTCOME, result->status) : -1;

	return status == OUTCOME_COMPILE_ERROR || status == OUTCOME_WRONG_RESULT;
}

static const struct sight *standing(const struct world *w, int candidate)
{
	return candidate < 0 ? &w->baseline : &w->candidates[candidate].sight;
}

/* A variant the GPU cannot run, proposed unawares. */
static bool overreach(struct world *w, int member, struct neighbour *out)
{
	struct member *m = &w->members[member];
	struct neighbour list[MAX_NEIGHBOURS];
	int unmet[MAX_VARIANTS], n = 0, found = 0;

	if (rng_unit(&m->rng) >= 0.16 * (1.05 - m->agent->skill))
		return false;
	for (int i = 1; i < w->n_variants; i++) {
		if (w->variants[i].unmet && w->variants[i].any)
			unmet[n++] = i;
	}
	if (!n)
		return false;
	add_entries(w, member, unmet[rng_below(&m->rng, (uint64_t)n)], 1, list, &found);
	if (found)
		*out = list[0];
	return found > 0;
}

static bool explore(struct world *w, int member, int base, struct neighbour *out, bool *aimed)
{
	struct member *m = &w->members[member];
	const struct sight *from = standing(w, base);
	struct neighbour list[MAX_NEIGHBOURS];
	int n = 0, assignable[MAX_VARIANTS], n_assignable = search_assignable(w, assignable);

	/* First steps stay near the baseline; who stands on his own variant
	 * tunes it, who does not moves there. */
	add_steps(w, member, &from->config, list, &n);
	if (m->variant >= 0 && m->variant != from->config.variant)
		add_entries(w, member, m->variant, base < 0 && m->last < 0 ? 1 : 3, list, &n);
	/* Who has been elsewhere thinks of it again, and anybody may look aside
	 * once something runs. */
	if (m->home != m->variant && m->home >= 0 && m->home != from->config.variant)
		add_entries(w, member, m->home, 2, list, &n);
	if (m->variant < 0 || !n || (base >= 0 && rng_unit(&m->rng) < w->scenario->wander))
		add_entries(w, member, assignable[rng_below(&m->rng, (uint64_t)n_assignable)], 3,
		            list, &n);
	for (int tries = 0; !n && tries < 8; tries++)
		add_entries(w, member, assignable[rng_below(&m->rng, (uint64_t)n_assignable)], 4,
		            list, &n);
	/* Nothing near helps: the better agent looks through the other variants
	 * for what would. */
	if (m->limiter >= 0 && !any_relief(m, from, list, n) &&
	    rng_unit(&m->rng) < m->agent->skill) {
		for (int i = 0; i < n_assignable; i++)
			add_entries(w, member, assignable[i], 2, list, &n);
	}
	if (!n)
		return false;
	*out = list[choose(w, m, from, list, n, aimed)];
	return true;
}

int search_propose(struct world *w, int member)
{
	struct member *m = &w->members[member];
	struct candidate *c = &w->candidates[w->n_candidates];
	const struct candidate *last = m->last < 0 ? NULL : &w->candidates[m->last];
	double chance = 0.34 - 0.27 * m->agent->skill;
	struct neighbour nb;
	bool aimed = false, repair = false;
	int parent = m->base;

	/* After a failed review or run the same thing is usually mended first. */
	if (last && last->fault && (failed(last->result) || last->review_failed)) {
		uint64_t mended = source_key(w, &last->sight.config, NULL);

		repair = (last->review_failed || rng_unit(&m->rng) < 0.8) &&
		         !knows(w, member, mended);
	}
	if (repair) {
		nb.sight = last->sight;
		nb.move = MOVE_REPAIR;
		nb.param = -1;
		parent = m->last;
		chance *= 0.5;
	} else {
		if (last && last->review_failed)
			parent = m->last;
		if (!overreach(w, member, &nb) && !explore(w, member, parent, &nb, &aimed))
			return -1;
		if (parent < 0 && nb.move == MOVE_PARAM && m->last < 0)
			nb.move = MOVE_START;
	}
	*c = (struct candidate){
		.id = arena_printf(w->arena, "c%03d", w->n_candidates + 1),
		.author = member,
		.parent = parent,
		.sight = nb.sight,
		.move = nb.move,
		.param = nb.param,
		.limiter = aimed ? m->limiter : -1,
	};
	/* What it says of itself is composed before this. */
	c->fault = slip(w, member, &c->sight.config, chance);
	c->key = source_key(w, &c->sight.config, c->fault);
	return w->n_candidates++;
}

void search_adopt(struct world *w, int member, int candidate)
{
	struct member *m = &w->members[member];

	m->base = candidate;
	if (candidate >= 0) {
		m->variant = w->candidates[candidate].sight.config.variant;
		search_whole_region(w, member);
	}
}

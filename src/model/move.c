/*
 * move.c - comparing two configurations by their terms.
 */
#include "model/move.h"

#include <string.h>

#include "model/model.h"

/* An episode asks for the same few variants again and again, and binding their
 * names is most of the work: the last ones are kept. */
static struct binding *bound(const struct problem *p, const struct kernel *k)
{
	enum { KEPT = 8 };
	static struct {
		struct problem problem;
		struct binding binding;
	} kept[KEPT];
	static int next;

	for (int i = 0; i < KEPT; i++) {
		if (kept[i].binding.kernel == k && memcmp(&kept[i].problem, p, sizeof *p) == 0)
			return &kept[i].binding;
	}
	next = (next + 1) % KEPT;
	memcpy(&kept[next].problem, p, sizeof *p);
	config_bind(p, k, &kept[next].binding);
	return &kept[next].binding;
}

static bool terms_of(const struct problem *p, const struct kernel *k, const int64_t *params,
                     struct terms *out)
{
	struct resources r;
	struct estimate e;

	if (!model_try(p, bound(p, k), params, &r, &e))
		return false;
	*out = e.terms;
	return true;
}

enum move_class move_classify(const struct problem *p, const char *limiter,
                              const struct kernel *parent, const int64_t *parent_params,
                              const struct kernel *kernel, const int64_t *params)
{
	int64_t preset[KERNEL_MAX_PARAMS];
	struct terms from, to;
	int l = limiter ? limiter_from_name(limiter) : -1;

	if (l < 0)
		return MOVE_UNKNOWN;
	if (!parent) {
		parent = kernel_find(p->op->name, p->impl == IMPL_TRITON, "naive");
		config_preset(parent, preset);
		parent_params = preset;
	}
	if (!terms_of(p, parent, parent_params, &from) || !terms_of(p, kernel, params, &to))
		return MOVE_UNKNOWN;
	return model_relieves((enum limiter)l, &from, &to) ? MOVE_AGAINST : MOVE_OTHER;
}

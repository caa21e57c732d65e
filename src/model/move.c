/*
 * move.c - comparing two configurations by their terms.
 */
#include "model/move.h"

#include "model/model.h"

static bool terms_of(const struct problem *p, const struct kernel *k, const int64_t *params,
                     struct terms *out)
{
	struct binding b;
	struct resources r;
	struct estimate e;

	config_bind(p, k, &b);
	if (config_illegal(p, &b, params) || !config_resources(&b, params, &r) ||
	    !model_estimate(p->gpu, &r, &e))
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

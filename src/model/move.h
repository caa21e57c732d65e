/*
 * move.h - was a candidate a move against the limiter its author had last been
 * told? What stats asks of finished rows.
 */
#ifndef MODEL_MOVE_H
#define MODEL_MOVE_H

#include "ops/config.h"

enum move_class {
	MOVE_UNKNOWN, /* no limiter known yet, or a configuration the model refuses */
	MOVE_AGAINST, /* by its own counts it relieves that limiter */
	MOVE_OTHER
};

/* From one configuration (parent NULL: the baseline) to another. `limiter` is
 * the name in the author's last timed result, NULL if there was none. */
enum move_class move_classify(const struct problem *p, const char *limiter,
                              const struct kernel *parent, const int64_t *parent_params,
                              const struct kernel *kernel, const int64_t *params);

#endif

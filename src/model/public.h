/*
 * public.h - public measurements that the model is held against.
 */
#ifndef MODEL_PUBLIC_H
#define MODEL_PUBLIC_H

#include "ops/op.h"

struct public_point {
	int class; /* index of its class */
	const char *gpu, *op;
	enum dtype dtype;
	int64_t shape[OP_MAX_AXES];
	double us; /* published time */
};

struct public_answer {
	double us; /* of the model's fastest configuration */
	char choice[160], shape[64];
};

int public_classes(void);
const char *public_class(int c);
int public_points(void);
struct public_point public_point(int i);

/* The model's answer: the least time over every legal configuration of every
 * variant that the GPU can run. */
void public_model(const struct public_point *pt, struct public_answer *out);

#endif

/*
 * expr.h - integer expressions of the markers in kernel files.
 *
 * C's integer operators on int64 with C's meaning and precedence, plus
 * cdiv(a,b) (division rounded up), min, max, pow2(x) (least power of two >= x).
 * Names are bound to slots of a symbol table when the text is compiled, so
 * that evaluation is a walk over a short postfix program.
 */
#ifndef KERNELS_EXPR_H
#define KERNELS_EXPR_H

#include <stdbool.h>
#include <stdint.h>

enum { EXPR_MAX_SYMBOLS = 40 };

struct symbols {
	int n;
	char *name[EXPR_MAX_SYMBOLS];
};

struct expr_op {
	unsigned char code;
	int64_t value; /* constant, slot or jump target */
};

/* Owned by whoever compiled it; freed with expr_free. n == 0: absent. */
struct expr {
	int n;
	struct expr_op *ops;
};

/* Index of a name, added when new; -1 when the table is full. */
int symbols_slot(struct symbols *s, const char *name, int len);

/* Compiles text[0 … len). NULL on success, else what is wrong (static text). */
const char *expr_compile(const char *text, int len, struct symbols *s, struct expr *out);
void expr_free(struct expr *e);

/* The slot that instruction i reads; -1 if it reads none. */
int expr_slot(const struct expr *e, int i);

/* values[slot] for each symbol. False on overflow or division by zero (and
 * *out is 0). && || ?: evaluate only what they need, as in C. */
bool expr_eval(const struct expr *e, const int64_t *values, int64_t *out);

#endif

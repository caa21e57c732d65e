/*
 * expr.c - recursive descent into a postfix program, and its evaluation.
 */
#include "kernels/expr.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

enum code {
	X_CONST,
	X_VAR,
	X_ADD,
	X_SUB,
	X_MUL,
	X_DIV,
	X_MOD,
	X_SHL,
	X_SHR,
	X_NEG,
	X_NOT,
	X_BOOL,
	X_LT,
	X_LE,
	X_GT,
	X_GE,
	X_EQ,
	X_NE,
	X_CDIV,
	X_MIN,
	X_MAX,
	X_POW2,
	X_JUMP,
	X_JUMP_ZERO, /* pops the condition */
	X_AND,
	X_OR /* peek: jump keeping 0 or 1, else pop */
};

enum { MAX_STACK = 32 };

struct parser {
	const char *p, *end;
	struct symbols *symbols;
	struct expr *out;
	int cap;
	const char *error;
};

static void ternary(struct parser *ps);

static int emit(struct parser *ps, enum code code, int64_t value)
{
	if (ps->out->n == ps->cap) {
		ps->cap = ps->cap ? 2 * ps->cap : 16;
		ps->out->ops =
			xrealloc(ps->out->ops, (unsigned long)ps->cap * sizeof *ps->out->ops);
	}
	ps->out->ops[ps->out->n] = (struct expr_op){ (unsigned char)code, value };
	return ps->out->n++;
}

static void skip(struct parser *ps)
{
	while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\t'))
		ps->p++;
}

/* Consumes `token` unless it is the beginning of a longer operator. */
static bool take(struct parser *ps, const char *token)
{
	size_t n = strlen(token);

	skip(ps);
	if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, token, n) != 0)
		return false;
	if (n == 1 && ps->p + 1 < ps->end) {
		if ((*token == '<' || *token == '>' || *token == '!') && ps->p[1] == '=')
			return false;
		if ((*token == '<' || *token == '>') && ps->p[1] == *token)
			return false;
	}
	ps->p += n;
	return true;
}

static void fail(struct parser *ps, const char *what)
{
	if (!ps->error)
		ps->error = what;
	ps->p = ps->end;
}

static void call(struct parser *ps, enum code code, int arity)
{
	if (!take(ps, "(")) {
		fail(ps, "'(' expected");
		return;
	}
	for (int i = 0; i < arity; i++) {
		ternary(ps);
		if (!take(ps, i + 1 < arity ? "," : ")")) {
			fail(ps, "',' or ')' expected");
			return;
		}
	}
	emit(ps, code, 0);
}

static void primary(struct parser *ps)
{
	static const struct {
		const char *name;
		enum code code;
		int arity;
	} functions[] = {
		{ "cdiv", X_CDIV, 2 },
		{ "min", X_MIN, 2 },
		{ "max", X_MAX, 2 },
		{ "pow2", X_POW2, 1 },
	};

	skip(ps);
	if (ps->p == ps->end) {
		fail(ps, "operand expected");
		return;
	}
	if (take(ps, "(")) {
		ternary(ps);
		if (!take(ps, ")"))
			fail(ps, "')' expected");
		return;
	}
	if (isdigit((unsigned char)*ps->p)) {
		int64_t v = 0;

		while (ps->p < ps->end && isdigit((unsigned char)*ps->p)) {
			if (v > INT64_MAX / 10 - 1) {
				fail(ps, "number too large");
				return;
			}
			v = 10 * v + (*ps->p++ - '0');
		}
		emit(ps, X_CONST, v);
		return;
	}
	if (isalpha((unsigned char)*ps->p) || *ps->p == '_') {
		const char *name = ps->p;
		int len, slot;

		while (ps->p < ps->end && (isalnum((unsigned char)*ps->p) || *ps->p == '_'))
			ps->p++;
		len = (int)(ps->p - name);
		for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
			if ((int)strlen(functions[i].name) == len &&
			    memcmp(functions[i].name, name, (size_t)len) == 0) {
				call(ps, functions[i].code, functions[i].arity);
				return;
			}
		}
		slot = symbols_slot(ps->symbols, name, len);
		if (slot < 0)
			fail(ps, "too many names");
		else
			emit(ps, X_VAR, slot);
		return;
	}
	fail(ps, "operand expected");
}

static void unary(struct parser *ps)
{
	if (take(ps, "-")) {
		unary(ps);
		emit(ps, X_NEG, 0);
	} else if (take(ps, "!")) {
		unary(ps);
		emit(ps, X_NOT, 0);
	} else {
		primary(ps);
	}
}

struct level {
	const char *token;
	enum code code;
};

/* Left-associative binary operators, the tightest level last. */
static const struct level levels[][5] = {
	{ { "==", X_EQ }, { "!=", X_NE }, { NULL, X_CONST } },
	{ { "<=", X_LE }, { ">=", X_GE }, { "<", X_LT }, { ">", X_GT }, { NULL, X_CONST } },
	{ { "<<", X_SHL }, { ">>", X_SHR }, { NULL, X_CONST } },
	{ { "+", X_ADD }, { "-", X_SUB }, { NULL, X_CONST } },
	{ { "*", X_MUL }, { "/", X_DIV }, { "%", X_MOD }, { NULL, X_CONST } },
};

static void binary(struct parser *ps, size_t level)
{
	if (level == sizeof levels / sizeof *levels) {
		unary(ps);
		return;
	}
	binary(ps, level + 1);
	for (;;) {
		const struct level *l;

		for (l = levels[level]; l->token && !take(ps, l->token); l++)
			;
		if (!l->token || ps->error)
			return;
		binary(ps, level + 1);
		emit(ps, l->code, 0);
	}
}

static void logic(struct parser *ps, const char *token, enum code code)
{
	bool any = false;

	if (code == X_OR)
		logic(ps, "&&", X_AND);
	else
		binary(ps, 0);
	while (!ps->error && take(ps, token)) {
		int at;

		if (!any)
			emit(ps, X_BOOL, 0);
		any = true;
		at = emit(ps, code, 0);
		if (code == X_OR)
			logic(ps, "&&", X_AND);
		else
			binary(ps, 0);
		emit(ps, X_BOOL, 0);
		ps->out->ops[at].value = ps->out->n;
	}
}

static void ternary(struct parser *ps)
{
	int to_else, to_end;

	logic(ps, "||", X_OR);
	if (ps->error || !take(ps, "?"))
		return;
	to_else = emit(ps, X_JUMP_ZERO, 0);
	ternary(ps);
	to_end = emit(ps, X_JUMP, 0);
	ps->out->ops[to_else].value = ps->out->n;
	if (!take(ps, ":")) {
		fail(ps, "':' expected");
		return;
	}
	ternary(ps);
	ps->out->ops[to_end].value = ps->out->n;
}

int symbols_slot(struct symbols *s, const char *name, int len)
{
	for (int i = 0; i < s->n; i++) {
		if ((int)strlen(s->name[i]) == len && memcmp(s->name[i], name, (size_t)len) == 0)
			return i;
	}
	if (s->n == EXPR_MAX_SYMBOLS)
		return -1;
	s->name[s->n] = xmalloc((unsigned long)len + 1);
	memcpy(s->name[s->n], name, (size_t)len);
	s->name[s->n][len] = '\0';
	return s->n++;
}

const char *expr_compile(const char *text, int len, struct symbols *s, struct expr *out)
{
	struct parser ps = { text, text + len, s, out, 0, NULL };
	int depth = 0;

	*out = (struct expr){ 0 };
	ternary(&ps);
	skip(&ps);
	if (!ps.error && ps.p != ps.end)
		ps.error = "operator expected";
	/* No instruction pushes more than one value, so this bounds the stack. */
	for (int i = 0; i < out->n; i++)
		depth += out->ops[i].code == X_CONST || out->ops[i].code == X_VAR;
	if (!ps.error && depth > MAX_STACK)
		ps.error = "expression too long";
	if (ps.error)
		expr_free(out);
	return ps.error;
}

void expr_free(struct expr *e)
{
	free(e->ops);
	*e = (struct expr){ 0 };
}

static bool apply(enum code code, int64_t a, int64_t b, int64_t *r)
{
	switch (code) {
	case X_ADD:
		return !__builtin_add_overflow(a, b, r);
	case X_SUB:
		return !__builtin_sub_overflow(a, b, r);
	case X_MUL:
		return !__builtin_mul_overflow(a, b, r);
	case X_LT:
		*r = a < b;
		return true;
	case X_LE:
		*r = a <= b;
		return true;
	case X_GT:
		*r = a > b;
		return true;
	case X_GE:
		*r = a >= b;
		return true;
	case X_EQ:
		*r = a == b;
		return true;
	case X_NE:
		*r = a != b;
		return true;
	case X_MIN:
		*r = a < b ? a : b;
		return true;
	case X_MAX:
		*r = a > b ? a : b;
		return true;
	case X_SHL:
		return b >= 0 && b < 62 && !__builtin_mul_overflow(a, (int64_t)1 << b, r);
	case X_SHR:
		*r = b >= 0 && b < 62 && a >= 0 ? a >> b : 0;
		return b >= 0 && b < 62 && a >= 0;
	default:
		break;
	}
	if (b == 0 || (a == INT64_MIN && b == -1))
		return false;
	if (code == X_MOD)
		*r = a % b;
	else
		*r = a / b + (code == X_CDIV && a % b != 0 && (a < 0) == (b < 0));
	return true;
}

int expr_slot(const struct expr *e, int i)
{
	return e->ops[i].code == X_VAR ? (int)e->ops[i].value : -1;
}

bool expr_eval(const struct expr *e, const int64_t *values, int64_t *out)
{
	int64_t stack[MAX_STACK + 1];
	int top = 0;

	*out = 0;
	for (int i = 0; i < e->n; i++) {
		const struct expr_op *op = &e->ops[i];

		switch ((enum code)op->code) {
		case X_CONST:
			stack[top++] = op->value;
			break;
		case X_VAR:
			stack[top++] = values[op->value];
			break;
		case X_NEG:
			if (stack[top - 1] == INT64_MIN)
				return false;
			stack[top - 1] = -stack[top - 1];
			break;
		case X_NOT:
			stack[top - 1] = !stack[top - 1];
			break;
		case X_BOOL:
			stack[top - 1] = stack[top - 1] != 0;
			break;
		case X_POW2: {
			int64_t p = 1;

			while (p < stack[top - 1] && p < INT64_MAX / 2)
				p *= 2;
			stack[top - 1] = p;
			break;
		}
		case X_JUMP:
			i = (int)op->value - 1;
			break;
		case X_JUMP_ZERO:
			if (!stack[--top])
				i = (int)op->value - 1;
			break;
		case X_AND:
		case X_OR:
			if ((stack[top - 1] != 0) == (op->code == X_OR))
				i = (int)op->value - 1;
			else
				top--;
			break;
		default:
			top--;
			if (!apply((enum code)op->code, stack[top - 1], stack[top],
			           &stack[top - 1]))
				return false;
			break;
		}
	}
	*out = stack[0];
	return true;
}

/*
 * kernel.c - parsing and rendering of the embedded kernel files.
 */
#include "kernels/kernel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

struct kernel_file {
	const char *op, *variant, *extension;
	const unsigned char *data;
	size_t size;
};

/* Written by the build: every file of kernels/, sorted by path. */
#include "kernels.inc"

enum {
	N_FILES = sizeof kernel_files / sizeof *kernel_files,
	MAX_REPLACEMENTS = 24,
	MAX_FAULTS = 32
};

/* What a marker says about the line below it. */
struct replacement {
	enum { BY_PARAM, BY_DTYPE, BY_FAULT } by;
	int index; /* of the parameter or fault */
	const char *dtype;
	const char *text; /* BY_PARAM: NULL, the line is cut instead */
	int len;
};

struct kernel_line {
	const char *text; /* without newline, in the embedded file */
	int len;
	int indent;
	int cut, cut_end; /* a parameter's value lies in [cut, cut_end) */
	int n;
	struct replacement *replacements;
};

static const char *const cost_names[COST_COUNT] = {
	"grid", "block", "smem", "regs", "read", "once", "write", "inflight",
	"ops",  "sfu",   "tc16", "tc8i", "tc8f", "eff",  "chain", "tiles",
};

/* The file and line being parsed. */
struct cursor {
	struct kernel *k;
	const char *p, *end;
	int line;
};

static _Noreturn void complain(const struct cursor *c, const char *what, const char *p, int len)
{
	bug("kernels/%s:%d: %s '%.*s'", c->k->path, c->line, what, len, p);
}

static const char *copy(const char *p, int len)
{
	char *s = xmalloc((unsigned long)len + 1);

	memcpy(s, p, (size_t)len);
	s[len] = '\0';
	return s;
}

/* The next blank-separated word of [*p, end). */
static int word(const char **p, const char *end, const char **out)
{
	const char *q;

	while (*p < end && **p == ' ')
		++*p;
	for (q = *p; q < end && *q != ' '; q++)
		;
	*out = *p;
	*p = q;
	return (int)(q - *out);
}

static bool is_word(const char *p, int len, const char *s)
{
	return (int)strlen(s) == len && memcmp(p, s, (size_t)len) == 0;
}

static struct expr compile(const struct cursor *c, const char *p, int len)
{
	struct expr e;
	const char *what = expr_compile(p, len, &c->k->symbols, &e);

	if (what)
		complain(c, what, p, len);
	return e;
}

static int fault_index(struct cursor *c, const char *name, int len)
{
	struct kernel *k = c->k;

	for (int i = 0; i < k->n_faults; i++) {
		if (is_word(name, len, k->faults[i].name))
			return i;
	}
	if (k->n_faults == MAX_FAULTS)
		complain(c, "too many faults at", name, len);
	if (!k->faults)
		k->faults = xmalloc(MAX_FAULTS * sizeof *k->faults);
	k->faults[k->n_faults] =
		(struct kernel_fault){ .name = copy(name, len), .shows = "mismatch" };
	return k->n_faults++;
}

/* `fault NAME compile|wrong [when EXPR]: TEXT` */
static struct replacement parse_fault(struct cursor *c, const char *p, const char *end)
{
	const char *name, *type, *colon;
	int name_len = word(&p, end, &name), type_len, index;
	struct kernel_fault *f;

	index = fault_index(c, name, name_len);
	f = &c->k->faults[index];
	/* The type may touch the colon. */
	while (p < end && *p == ' ')
		p++;
	for (type = p; p < end && isalpha((unsigned char)*p); p++)
		;
	type_len = (int)(p - type);
	f->defined = true;
	f->compile = is_word(type, type_len, "compile");
	if (!f->compile && !is_word(type, type_len, "wrong"))
		complain(c, "fault is neither compile nor wrong:", type, type_len);
	/* `when` may hold a conditional, so the colon meant is the first one
	 * that does not answer a '?'. */
	colon = p;
	for (int open = 0; colon < end && (*colon != ':' || open > 0); colon++)
		open += (*colon == '?') - (*colon == ':');
	if (colon == end)
		complain(c, "fault without ':'", name, name_len);
	while (p < colon && *p == ' ')
		p++;
	if (p < colon) {
		const char *when;
		int len = word(&p, colon, &when);

		if (!is_word(when, len, "when"))
			complain(c, "'when' expected at", when, len);
		if (!f->when.n)
			f->when = compile(c, p, (int)(colon - p));
	}
	p = colon + 1;
	if (p < end && *p == ' ')
		p++;
	return (struct replacement){
		.by = BY_FAULT, .index = index, .text = p, .len = (int)(end - p)
	};
}

/* `says NAME[+N|-N]: MESSAGE` and `shows NAME: REASON` */
static void parse_says(struct cursor *c, const char *p, const char *end, bool shows)
{
	const char *name, *colon = memchr(p, ':', (size_t)(end - p));
	struct kernel_fault *f;
	char *stop;
	int len, index;

	if (!colon)
		complain(c, "says without ':'", p, (int)(end - p));
	while (*p == ' ')
		p++;
	for (name = p; p < colon && (isalnum((unsigned char)*p) || *p == '_'); p++)
		;
	len = (int)(p - name);
	index = fault_index(c, name, len); /* may make the array */
	f = &c->k->faults[index];
	while (*p == ' ')
		p++;
	if (*p == '+' || *p == '-') {
		f->says_offset = (int)strtol(p, &stop, 10);
		p = stop;
	}
	if (p != colon)
		complain(c, "says: ':' expected at", p, (int)(end - p));
	for (p = colon + 1; p < end && *p == ' '; p++)
		;
	*(shows ? &f->shows : &f->says) = copy(p, (int)(end - p));
}

static struct replacement parse_param(struct cursor *c, const char *p, const char *end)
{
	struct kernel *k = c->k;
	struct kernel_param *a = &k->params[k->n_params];

	if (k->n_params == KERNEL_MAX_PARAMS)
		complain(c, "too many parameters at", p, (int)(end - p));
	while (p < end) {
		const char *w;
		int len = word(&p, end, &w);
		char *stop;

		if (!len)
			break;
		if (a->n == KERNEL_MAX_VALUES)
			complain(c, "too many values at", w, len);
		a->value[a->n++] = strtol(w, &stop, 10);
		if (stop != w + len)
			complain(c, "no integer:", w, len);
	}
	return (struct replacement){ .by = BY_PARAM, .index = k->n_params++ };
}

static struct replacement parse_dtype(struct cursor *c, const char *p, const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p)), *name;
	struct replacement r = { .by = BY_DTYPE };
	int len;

	if (!colon)
		complain(c, "dtype without ':'", p, (int)(end - p));
	len = word(&p, colon, &name);
	r.dtype = copy(name, len);
	r.text = colon + 1 + (colon + 1 < end && colon[1] == ' ');
	r.len = (int)(end - r.text);
	return r;
}

static void parse_kernel(struct cursor *c, const char *p, const char *end)
{
	struct kernel *k = c->k;
	struct kernel_launch *l = &k->launches[k->n_launches];

	if (k->n_launches++ == KERNEL_MAX_LAUNCHES)
		complain(c, "too many launches at", p, (int)(end - p));
	for (;;) {
		const char *w, *eq;
		int len = word(&p, end, &w), i;

		if (!len)
			break;
		eq = memchr(w, '=', (size_t)len);
		if (!eq)
			complain(c, "'=' expected in", w, len);
		for (i = 0; i < COST_COUNT && !is_word(w, (int)(eq - w), cost_names[i]); i++)
			;
		if (i == COST_COUNT)
			complain(c, "unknown cost", w, len);
		l->cost[i] = compile(c, eq + 1, (int)(w + len - eq) - 1);
	}
	if (!l->cost[COST_GRID].n || !l->cost[COST_BLOCK].n)
		complain(c, "launch without grid or block", "", 0);
}

static void parse_needs(struct cursor *c, const char *p, const char *end)
{
	static const char *none[] = { NULL };
	const char **needs = xmalloc(16 * sizeof *needs);
	int n = 0;

	for (;;) {
		const char *w;
		int len = word(&p, end, &w);

		if (!len)
			break;
		if (n == 15)
			complain(c, "too many needs at", w, len);
		needs[n++] = copy(w, len);
	}
	needs[n] = NULL;
	c->k->needs = n ? needs : none;
}

/* One marker [p, end); true with *r set when it concerns the line below. */
static bool parse_marker(struct cursor *c, const char *p, const char *end, struct replacement *r)
{
	struct kernel *k = c->k;
	const char *w;
	int len = word(&p, end, &w);

	while (p < end && *p == ' ')
		p++;
	if (is_word(w, len, "fault")) {
		*r = parse_fault(c, p, end);
		return true;
	}
	if (is_word(w, len, "param")) {
		*r = parse_param(c, p, end);
		return true;
	}
	if (is_word(w, len, "dtype")) {
		*r = parse_dtype(c, p, end);
		return true;
	}
	if (is_word(w, len, "idea")) {
		k->idea = copy(p, (int)(end - p));
	} else if (is_word(w, len, "dtypes")) {
		char *s = xmalloc((unsigned long)(end - p) + 3);

		s[0] = ' ';
		memcpy(s + 1, p, (size_t)(end - p));
		memcpy(s + 1 + (end - p), " ", 2);
		k->dtypes = s;
	} else if (is_word(w, len, "needs")) {
		parse_needs(c, p, end);
	} else if (is_word(w, len, "legal")) {
		k->legal = xrealloc(k->legal, (unsigned long)(k->n_legal + 1) * sizeof *k->legal);
		k->legal[k->n_legal++] = compile(c, p, (int)(end - p));
	} else if (is_word(w, len, "says")) {
		parse_says(c, p, end, false);
	} else if (is_word(w, len, "shows")) {
		parse_says(c, p, end, true);
	} else if (is_word(w, len, "kernel")) {
		parse_kernel(c, p, end);
	} else {
		complain(c, "unknown marker", w, len);
	}
	return false;
}

/* The line below a param marker: `constexpr int NAME = VALUE;`, in Python
 * `NAME = VALUE`, perhaps annotated. */
static void bind_param(struct cursor *c, struct kernel_line *line, struct kernel_param *a)
{
	const char *p = line->text, *eq = memchr(p, '=', (size_t)line->len), *q, *end;
	char *stop;

	if (!eq)
		complain(c, "no definition below param:", p, line->len);
	for (q = eq; q > p && !(isalnum((unsigned char)q[-1]) || q[-1] == '_'); q--)
		;
	/* Skip an annotation such as `: tl.constexpr`. */
	if (c->k->triton) {
		for (const char *colon = p; colon < eq; colon++) {
			if (*colon == ':')
				q = colon;
		}
		while (q > p && q[-1] == ' ')
			q--;
	}
	end = q;
	while (q > p && (isalnum((unsigned char)q[-1]) || q[-1] == '_'))
		q--;
	a->name = copy(q, (int)(end - q));
	for (q = eq + 1; *q == ' '; q++)
		;
	a->preset = strtol(q, &stop, 10);
	if (stop == q || !*a->name)
		complain(c, "no integer below param:", p, line->len);
	line->cut = (int)(q - p);
	line->cut_end = (int)(stop - p);
	for (int i = 0; i < a->n; i++) {
		if (a->value[i] == a->preset)
			return;
	}
	complain(c, "preset is none of the legal values:", p, line->len);
}

static void add_line(struct cursor *c, const char *text, int len, const struct replacement *r,
                     int n)
{
	struct kernel *k = c->k;
	struct kernel_line *l = &k->lines[k->n_lines++];

	*l = (struct kernel_line){ .text = text, .len = len, .n = n };
	while (l->indent < len && (text[l->indent] == ' ' || text[l->indent] == '\t'))
		l->indent++;
	if (!n)
		return;
	l->replacements = xmalloc((unsigned long)n * sizeof *r);
	memcpy(l->replacements, r, (size_t)n * sizeof *r);
	for (int i = 0; i < n; i++) {
		if (r[i].by == BY_PARAM)
			bind_param(c, l, &k->params[r[i].index]);
	}
}

static void check(struct cursor *c)
{
	struct kernel *k = c->k;
	static const char *none[] = { NULL };

	c->line = 0;
	if (!k->needs)
		k->needs = none;
	if (!k->idea)
		complain(c, "no idea marker", "", 0);
	if (!k->n_launches)
		complain(c, "no kernel marker", "", 0);
	for (int i = 0; i < k->n_faults; i++) {
		if (!k->faults[i].defined)
			complain(c, "says or shows without a fault:", k->faults[i].name,
			         (int)strlen(k->faults[i].name));
		if (k->faults[i].compile && !k->faults[i].says)
			complain(c, "compile fault without says:", k->faults[i].name,
			         (int)strlen(k->faults[i].name));
	}
	for (int i = 0; i < k->n_params; i++) {
		struct kernel_param *a = &k->params[i];

		a->slot = symbols_slot(&k->symbols, a->name, (int)strlen(a->name));
		if (a->slot < 0)
			complain(c, "too many names at", a->name, (int)strlen(a->name));
	}
}

static struct kernel *parse(const struct kernel_file *f)
{
	struct kernel *k = xmalloc(sizeof *k);
	struct cursor c = { .k = k,
		            .p = (const char *)f->data,
		            .end = (const char *)f->data + f->size };
	struct replacement pending[MAX_REPLACEMENTS];
	struct buf path = { 0 };
	const char *mark;
	int n = 0;
	size_t lines = 1;

	*k = (struct kernel){ .op = f->op,
		              .variant = f->variant,
		              .triton = strcmp(f->extension, "py") == 0 };
	buf_printf(&path, "%s/%s.%s", f->op, f->variant, f->extension);
	k->path = path.data;
	mark = k->triton ? "#!" : "//!";
	for (const char *p = c.p; p < c.end; p++)
		lines += *p == '\n';
	k->lines = xmalloc(lines * sizeof *k->lines);
	while (c.p < c.end) {
		const char *eol = memchr(c.p, '\n', (size_t)(c.end - c.p)), *p = c.p;
		size_t mark_len = strlen(mark);

		if (!eol)
			eol = c.end;
		c.line++;
		while (p < eol && (*p == ' ' || *p == '\t'))
			p++;
		if ((size_t)(eol - p) >= mark_len && memcmp(p, mark, mark_len) == 0) {
			if (n == MAX_REPLACEMENTS)
				complain(&c, "too many markers above one line", "", 0);
			n += parse_marker(&c, p + mark_len, eol, &pending[n]);
		} else {
			add_line(&c, c.p, (int)(eol - c.p), pending, n);
			n = 0;
		}
		c.p = eol + 1;
	}
	if (n)
		complain(&c, "marker without a line below", "", 0);
	check(&c);
	return k;
}

static const struct kernel *parsed(int file)
{
	static struct kernel *kernels[N_FILES];

	if (!kernels[file])
		kernels[file] = parse(&kernel_files[file]);
	return kernels[file];
}

struct group {
	const char *op;
	bool triton;
	int n;
	const struct kernel **list;
};

static const struct group *group(const char *op, bool triton)
{
	static struct group groups[N_FILES];
	static int n_groups;
	struct group *g;

	for (int i = 0; i < n_groups; i++) {
		if (groups[i].triton == triton && strcmp(groups[i].op, op) == 0)
			return &groups[i];
	}
	g = &groups[n_groups];
	*g = (struct group){ .triton = triton, .list = xmalloc(N_FILES * sizeof *g->list) };
	for (int i = 0; i < N_FILES; i++) {
		const struct kernel_file *f = &kernel_files[i];

		if (strcmp(f->op, op) != 0 || (strcmp(f->extension, "py") == 0) != triton)
			continue;
		g->op = f->op;
		g->list[g->n++] = parsed(i);
		/* Files come sorted by name; naive moves to the front. */
		if (strcmp(f->variant, "naive") == 0) {
			const struct kernel *naive = g->list[g->n - 1];

			for (int j = g->n - 1; j > 0; j--)
				g->list[j] = g->list[j - 1];
			g->list[0] = naive;
		}
	}
	if (g->n)
		n_groups++;
	return g;
}

const struct kernel *const *kernel_list(const char *op, bool triton, int *n)
{
	const struct group *g = group(op, triton);

	*n = g->n;
	return g->list;
}

const struct kernel *kernel_find(const char *op, bool triton, const char *variant)
{
	const struct group *g = group(op, triton);

	for (int i = 0; i < g->n; i++) {
		if (strcmp(g->list[i]->variant, variant) == 0)
			return g->list[i];
	}
	return NULL;
}

bool kernel_has_dtype(const struct kernel *k, const char *dtype)
{
	char name[16];

	if (!k->dtypes)
		return true;
	if (strlen(dtype) > sizeof name - 3)
		return false;
	name[0] = ' ';
	strcpy(name + 1, dtype);
	strcat(name, " ");
	return strstr(k->dtypes, name) != NULL;
}

int kernel_param_index(const struct kernel *k, const char *name)
{
	for (int i = 0; i < k->n_params; i++) {
		if (strcmp(k->params[i].name, name) == 0)
			return i;
	}
	return -1;
}

const struct kernel_fault *kernel_fault_find(const struct kernel *k, const char *name)
{
	for (int i = 0; i < k->n_faults; i++) {
		if (strcmp(k->faults[i].name, name) == 0)
			return &k->faults[i];
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *kernel_param_names(int *n)
{
	static const char **names;
	static int count;

	if (!names) {
		int m = 0;

		names = xmalloc((unsigned long)N_FILES * KERNEL_MAX_PARAMS * sizeof *names);
		for (int i = 0; i < N_FILES; i++) {
			const struct kernel *k = parsed(i);

			for (int j = 0; j < k->n_params; j++)
				names[m++] = k->params[j].name;
		}
		qsort(names, (size_t)m, sizeof *names, by_name);
		for (int i = 0; i < m; i++) {
			if (!count || strcmp(names[count - 1], names[i]) != 0)
				names[count++] = names[i];
		}
	}
	*n = count;
	return names;
}

void kernel_bind(const struct kernel *k, int64_t *values, const char *name, int64_t value)
{
	for (int i = 0; i < k->symbols.n; i++) {
		if (strcmp(k->symbols.name[i], name) == 0)
			values[i] = value;
	}
}

void kernel_bind_params(const struct kernel *k, int64_t *values, const int64_t *params)
{
	for (int i = 0; i < k->n_params; i++)
		values[k->params[i].slot] = params[i];
}

/* What stands for a line: a fault's text before a dtype's before a value. */
static const struct replacement *choose(const struct kernel_line *l, const char *dtype, int fault)
{
	const struct replacement *best = NULL;

	for (int i = 0; i < l->n; i++) {
		const struct replacement *r = &l->replacements[i];

		if (r->by == BY_FAULT   ? r->index == fault
		    : r->by == BY_DTYPE ? strcmp(r->dtype, dtype) == 0
		                        : true) {
			if (!best || r->by > best->by)
				best = r;
		}
	}
	return best;
}

void kernel_render(const struct kernel *k, const char *dtype, const int64_t *params,
                   const struct kernel_fault *fault, struct buf *out, int *line)
{
	int fault_at = fault ? (int)(fault - k->faults) : -1, n = 1;

	*line = 0;
	for (int i = 0; i < k->n_lines; i++) {
		const struct kernel_line *l = &k->lines[i];
		const struct replacement *r = l->n ? choose(l, dtype, fault_at) : NULL;

		if (r && r->by == BY_FAULT && !*line)
			*line = n;
		if (r && r->by != BY_PARAM && !r->len)
			continue;
		if (!r) {
			buf_add(out, l->text, (size_t)l->len);
		} else if (r->by == BY_PARAM) {
			buf_add(out, l->text, (size_t)l->cut);
			buf_printf(out, "%lld", (long long)params[r->index]);
			buf_add(out, l->text + l->cut_end, (size_t)(l->len - l->cut_end));
		} else {
			buf_add(out, l->text, (size_t)l->indent);
			buf_add(out, r->text, (size_t)r->len);
		}
		buf_char(out, '\n');
		n++;
	}
}

const char *kernel_file_name(const struct kernel *k)
{
	return k->triton ? "candidate.py" : "candidate.cu";
}

/*
 * fuzz.c - structure-aware fuzzing of the row reader and writer.
 *
 *	fuzz SECONDS SEED
 *
 * Makes rows in many spellings, most of them then spoilt (tokens deleted,
 * doubled, swapped, replaced by nasty ones; bytes flipped; cut short; nested),
 * and holds row/ to its promises:
 *
 * - what the scanner accepts, cJSON parses;
 * - an unspoilt row is accepted;
 * - an accepted row prints, and what it prints is accepted and prints the same;
 * - the printed row means what cJSON alone reads in the line.
 *
 * Build it with -fsanitize=address,undefined; lines are exact copies, so that a
 * byte read too many is seen. The last line tells the rounds; a failure prints
 * the line and exits 1.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/num.h"
#include "base/rng.h"
#include "row/loop.h"
#include "row/print.h"
#include "row/row.h"
#include "row/scan.h"

static struct rng rng;

static int below(int n)
{
	return (int)rng_below(&rng, (uint64_t)n);
}

static const char *one_of(const char *const *list, size_t n)
{
	return list[rng_below(&rng, n)];
}

#define ONE_OF(list) one_of(list, sizeof(list) / sizeof(*(list)))

/* --- rows ----------------------------------------------------------------- */

static void add_blank(struct buf *b)
{
	if (!below(12))
		buf_add(b, "   ", (size_t)(1 + below(3)));
}

static void add_string(struct buf *b)
{
	static const char *const pieces[] = {
		"a",
		"word ",
		"\\\"",
		"\\\\",
		"\\/",
		"/",
		"\\b",
		"\\f",
		"\\n",
		"\\r",
		"\\t",
		"\\u00e9",
		"\\u00E9",
		"\\u0001",
		"\\u001f",
		"\\ud83d\\ude00",
		"\xc2\x80",
		"\xe2\x82\xac",
		"\xf0\x9f\x98\x80",
		"\x7f",
		"{",
		"}",
		"[",
		"]",
		":",
		",",
		"plain text of more bytes ",
		"\\u00010",
		"\\u00011",
		"0",
		"1",
	};
	int n = below(8) ? below(6) : below(8) ? below(60) : below(400);

	buf_char(b, '"');
	while (n--)
		buf_str(b, ONE_OF(pieces));
	buf_char(b, '"');
}

static void add_number(struct buf *b)
{
	static const char *const edges[] = {
		"0",
		"-0",
		"-0.0",
		"1e5",
		"1E+5",
		"1e-5",
		"1.7976931348623157e307",
		"5e-324",
		"1e-400",
		"999999999999999",
		"1000000000000000",
		"9007199254740993",
		"0.30000000000000004",
		"123456789012345678901234567890",
		"0.1",
		"-1.5",
		"4.35",
	};

	switch (below(4)) {
	case 0:
		buf_str(b, ONE_OF(edges));
		break;
	case 1:
		buf_printf(b, "%d", below(1000));
		break;
	case 2:
		buf_printf(b, "%.*g", 1 + below(17), (rng_unit(&rng) - 0.5) * num_exp2(below(60)));
		break;
	case 3:
		buf_printf(b, "%.*e", below(17), rng_unit(&rng));
		break;
	}
}

static void add_value(struct buf *b, int depth);

/* Keys carry their number, so that a fresh row has no duplicates. */
static void add_nest(struct buf *b, int depth, bool object)
{
	int n = below(40) ? below(7) : below(60), i;

	buf_char(b, object ? '{' : '[');
	for (i = 0; i < n; i++) {
		if (i)
			buf_char(b, ',');
		add_blank(b);
		if (object) {
			static const char *const keys[] = {
				"k", "messages", "index", "\\u0001", "\\u0061", "\xc3\xa9", "",
			};

			buf_printf(b, "\"%s%d\"", ONE_OF(keys), i);
			add_blank(b);
			buf_char(b, ':');
			add_blank(b);
		}
		add_value(b, depth - 1);
		add_blank(b);
	}
	buf_char(b, object ? '}' : ']');
}

static void add_value(struct buf *b, int depth)
{
	static const char *const words[] = { "true", "false", "null" };

	switch (below(depth > 0 ? 6 : 3)) {
	case 0:
		buf_str(b, ONE_OF(words));
		break;
	case 1:
		add_number(b);
		break;
	case 2:
		add_string(b);
		break;
	default:
		add_nest(b, depth, below(2));
	}
}

/* --- spoiling ------------------------------------------------------------- */

/* The length of the token at p: a string, a word or number, a single byte. */
static size_t token(const char *p)
{
	const char *q = p;

	if (*p == '"') {
		for (q++; *q && *q != '"'; q++)
			if (*q == '\\' && q[1])
				q++;
		return (size_t)(q - p) + (*q == '"');
	}
	while (strchr("+-.0123456789eEtruefalsnu", *q) && *q)
		q++;
	return q > p ? (size_t)(q - p) : 1;
}

/* A random token of the row: its place and length. */
static size_t pick(const struct buf *b, size_t *len)
{
	size_t at = 0, aim = rng_below(&rng, b->len ? b->len : 1);

	for (;;) {
		*len = token(b->data + at);
		if (at + *len > aim || at + *len >= b->len)
			return at;
		at += *len;
	}
}

/* Puts n bytes in the place of `len` bytes at `at`. */
static void replace(struct buf *b, size_t at, size_t len, const char *with, size_t n)
{
	struct buf out = { 0 };

	buf_add(&out, b->data, at);
	buf_add(&out, with, n);
	buf_add(&out, b->data + at + len, b->len - at - len);
	buf_free(b);
	*b = out;
}

static void nest(struct buf *b, size_t at)
{
	int n = below(4) ? below(40) : below(3000), i;
	struct buf deep = { 0 };

	for (i = 0; i < n; i++)
		buf_str(&deep, below(2) ? "[" : "{\"a\":");
	replace(b, at, 0, deep.len ? deep.data : "", deep.len);
	buf_free(&deep);
}

static void spoil(struct buf *b)
{
	static const char *const nasty[] = {
		"\"\\u0000\"",
		"\"\\ud800\"",
		"\"\\udc00\\ud800\"",
		"\"\\uzzzz\"",
		"\"\\x\"",
		"\"\\u00010\"",
		"\"\\u000199999999999999999999\"",
		"1e999",
		"-1e999",
		"1.7976931348623157e308",
		"01",
		"1.",
		".5",
		"+1",
		"0x10",
		"NaN",
		"Infinity",
		"nul",
		"\"",
		"\\",
		"{",
		"}",
		"[",
		"]",
		",",
		":",
		"{}",
		"[]",
		"\"\xff\"",
		"\"\xc0\x80\"",
		"\"\xed\xa0\x80\"",
		"\"\xf4\x90\x80\x80\"",
		"\t",
		"\x01",
		"\"k0\":1,",
		"\"\\u006b0\":1,",
		"1000000000000000000000000000000000000000000000000000000000000000000000000000",
	};
	size_t at, len, at2, len2;
	struct buf copy = { 0 };
	const char *s;

	if (!b->len)
		return;
	at = pick(b, &len);
	switch (below(9)) {
	case 0: /* delete */
		replace(b, at, len, "", 0);
		break;
	case 1: /* double */
		buf_add(&copy, b->data + at, len);
		replace(b, at, 0, copy.data, len);
		break;
	case 2: /* one token over another */
		at2 = pick(b, &len2);
		buf_add(&copy, b->data + at2, len2);
		replace(b, at, len, copy.data, len2);
		break;
	case 3: /* replace */
		s = ONE_OF(nasty);
		replace(b, at, len, s, strlen(s));
		break;
	case 4: /* insert */
		s = ONE_OF(nasty);
		replace(b, at, 0, s, strlen(s));
		break;
	case 5: /* flip bits of a byte */
		b->data[rng_below(&rng, b->len)] ^= (char)(1 + below(255));
		break;
	case 6: /* any byte anywhere */
		b->data[rng_below(&rng, b->len)] = (char)below(256);
		break;
	case 7: /* cut short */
		b->len = rng_below(&rng, b->len);
		b->data[b->len] = '\0';
		break;
	case 8:
		nest(b, at);
		break;
	}
	buf_free(&copy);
}

/* --- promises ------------------------------------------------------------- */

static unsigned long rounds, accepted;
static const struct buf *under_test;

static _Noreturn void broken(const char *promise, const char *line, size_t len)
{
	printf("round %lu: %s\n", rounds, promise);
	fwrite(line, 1, len, stdout);
	putchar('\n');
	fflush(stdout);
	_exit(1);
}

/* A bug() on the way: its own message went where all of row/'s go. */
static void stopped(void)
{
	if (under_test)
		broken("a BUG ended the program", under_test->data, under_test->len);
}

/* Reads a line and appends it as printed; false for a bad row. */
static bool read_row(const char *line, size_t len, struct buf *printed)
{
	static struct row r;
	jmp_buf jump;

	row_reset();
	r = (struct row){ .file = "fuzz", .line = 1 };
	row_catch = &jump;
	if (setjmp(jump)) {
		json_free(r.root);
		return false;
	}
	row_parse(&r, line, len, rng_u64(&rng) & 1);
	buf_clear(printed);
	print_json(printed, r.root);
	json_free(r.root);
	return true;
}

/* The line as cJSON alone reads it and row/ prints it: no spans. */
static void plain(const char *line, size_t len, struct buf *out)
{
	json *j = json_parse(line, len);

	if (!j)
		broken("cJSON refuses what the scanner takes", line, len);
	buf_clear(out);
	print_json(out, j);
	json_free(j);
}

static void test(const struct buf *row, bool must)
{
	static struct buf printed, again, meant;
	char *line = malloc(row->len + 1);
	bool good;

	if (!line)
		die(EX_IO, "no memory");
	memcpy(line, row->data, row->len);
	line[row->len] = '\0';
	good = read_row(line, row->len, &printed);
	accepted += good;
	if (must && !good)
		broken("a valid row is refused", line, row->len);
	if (good) {
		if (!read_row(printed.data, printed.len, &again))
			broken("a printed row is refused", line, row->len);
		if (again.len != printed.len || memcmp(again.data, printed.data, again.len) != 0)
			broken("a printed row prints otherwise", line, row->len);
		/* There is no reading these without spans. */
		if (!strstr(line, "\\u0001")) {
			plain(printed.data, printed.len, &meant);
			plain(line, row->len, &again);
			/* -0 is what only a row turns into 0. */
			if (!strstr(again.data, "-0") &&
			    (again.len != meant.len ||
			     memcmp(again.data, meant.data, meant.len) != 0))
				broken("the printed row means something else", line, row->len);
		}
	}
	free(line);
}

#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_set_report_fd(void *fd);
#endif

int main(int argc, char **argv)
{
	int64_t seconds;
	uint64_t seed;
	time_t end;

	die_init(argv[0]);
	if (argc != 3 || !num_parse_i64(argv[1], &seconds) || !num_parse_u64(argv[2], &seed))
		die(EX_USAGE_, "usage: fuzz SECONDS SEED");
#if defined(__SANITIZE_ADDRESS__)
	/* Messages about bad rows are made, but not shown; reports are. */
	__sanitizer_set_report_fd((void *)(size_t)dup(STDERR_FILENO));
#endif
	if (!freopen("/dev/null", "w", stderr))
		die_errno("cannot open '/dev/null'");
	atexit(stopped);
	end = time(NULL) + seconds;
	for (rounds = 0; time(NULL) < end; rounds++) {
		struct buf row = { 0 };
		int faults, i;

		rng = rng_make(rng_mix2(seed, rounds), "fuzz");
		faults = below(4) ? 1 + below(3) : 0;
		add_nest(&row, 1 + below(6), true);
		add_blank(&row);
		for (i = 0; i < faults; i++)
			spoil(&row);
		rng = rng_make(rng_mix2(seed, rounds), "test");
		under_test = &row;
		test(&row, !faults);
		under_test = NULL;
		buf_free(&row);
	}
	printf("%lu rounds, %lu rows accepted\n", rounds, accepted);
	return 0;
}

/* scan.c - row/scan and row/check: every rule, from both sides. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "row/check.h"
#include "row/json.h"
#include "row/row.h"
#include "row/scan.h"
#include "row/span.h"

/* NULL if the line is a good row, else what is wrong with it. */
static const char *fault(const char *line, size_t len)
{
	static struct scan scan;
	const char *key;
	json *j;

	span_reset();
	if (!scan_row(&scan, line, len, true))
		return scan.what;
	j = json_parse_row(scan.text, scan.text_len);
	if (!j)
		return "cJSON refuses";
	key = check_tree(j);
	json_free(j);
	return key ? "duplicate key" : NULL;
}

struct sample {
	const char *line;
	const char *what; /* NULL: good */
};

static const struct sample samples[] = {
	/* Structure. */
	{ "{}", NULL },
	{ "  { }  ", NULL },
	{ "{ \"a\" : [ 1 , { } , [ ] , \"x\" ] , \"b\" : null }", NULL },
	{ "{\"a\":true,\"b\":false,\"c\":null}", NULL },
	{ "{\"\":1}", NULL },
	{ "", "blank line" },
	{ "   ", "blank line" },
	{ "[]", "row is no object" },
	{ "1", "row is no object" },
	{ "\"x\"", "row is no object" },
	{ "\xef\xbb\xbf{}", "row is no object" },
	{ "{", "row ends early" },
	{ "{\"a\"", "row ends early" },
	{ "{\"a\":", "row ends early" },
	{ "{\"a\":1", "row ends early" },
	{ "{\"a\":1,", "row ends early" },
	{ "{\"a\":[1", "row ends early" },
	{ "{\"a\":\"x", "row ends early" },
	{ "{\"a\":\"x\\", "row ends early" },
	{ "{\"a\":tru", "row ends early" },
	{ "{\"a\":-", "row ends early" },
	{ "{\"a\":1e", "row ends early" },
	{ "{}{}", "text behind the object" },
	{ "{} x", "text behind the object" },
	{ "{},", "text behind the object" },
	{ "{\"a\":1,}", "unexpected text" },
	{ "{,}", "unexpected text" },
	{ "{\"a\" 1}", "unexpected text" },
	{ "{a:1}", "unexpected text" },
	{ "{1:1}", "unexpected text" },
	{ "{\"a\":[1,]}", "unexpected text" },
	{ "{\"a\":[,1]}", "unexpected text" },
	{ "{\"a\":[1 2]}", "unexpected text" },
	{ "{\"a\":[1}]", "unexpected text" },
	{ "{\"a\":{\"b\":1]}", "unexpected text" },
	{ "{\"a\":'x'}", "unexpected text" },
	{ "{\"a\":\xc3\xa9}", "unexpected text" },
	/* Words and numbers. */
	{ "{\"a\":True}", "unexpected text" },
	{ "{\"a\":nul}", "unexpected text" },
	{ "{\"a\":nullx}", "unexpected text" },
	{ "{\"a\":NaN}", "unexpected text" },
	{ "{\"a\":Infinity}", "unexpected text" },
	{ "{\"a\":-Infinity}", "unexpected text" },
	{ "{\"a\":[0,-0,10,-1.5,1e5,1E+5,1e-5,0.0,0e0]}", NULL },
	{ "{\"a\":01}", "unexpected text" },
	{ "{\"a\":-01}", "unexpected text" },
	{ "{\"a\":+1}", "unexpected text" },
	{ "{\"a\":.5}", "unexpected text" },
	{ "{\"a\":5.}", "unexpected text" },
	{ "{\"a\":1.e5}", "unexpected text" },
	{ "{\"a\":0x10}", "unexpected text" },
	{ "{\"a\":1e5.5}", "unexpected text" },
	{ "{\"a\":1e400}", "number is too large" },
	{ "{\"a\":-1e400}", "number is too large" },
	{ "{\"a\":[{\"b\":1e400}]}", "number is too large" },
	/* The largest double itself prints as more than itself. */
	{ "{\"a\":1.7976931348623157e308}", "number is too large" },
	{ "{\"a\":1.79769313486231e308}", NULL },
	{ "{\"a\":1e-400}", NULL },
	{ "{\"a\":1e300000000000000000000}", "number is too large" },
	{ "{\"a\":100000000000000000000000000000000000000000000000000000000000000}", NULL },
	{ "{\"a\":1000000000000000000000000000000000000000000000000000000000000000}",
	  "number is too long" },
	/* Control bytes. */
	{ "{\"a\":\"x\ty\"}", "control byte" },
	{ "{\"a\":\"x\x01y\"}", "control byte" },
	{ "{\"a\":\"xxxxxxxxxxxxxxxxxxxxxxxx\x1fyyyyyyyyyyyyyyyyyyyyyyyyyy\"}", "control byte" },
	{ "{\t}", "control byte" },
	{ "{}\r", "control byte" },
	{ "\t{}", "control byte" },
	{ "{\"a\":\"\x7f\"}", NULL },
	/* Escapes. */
	{ "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uABCD\\uabcd\"}", NULL },
	{ "{\"a\":\"\\x41\"}", "bad escape" },
	{ "{\"a\":\"\\'\"}", "bad escape" },
	{ "{\"a\":\"\\u12\"}", "bad escape" },
	{ "{\"a\":\"\\u12g4\"}", "bad escape" },
	{ "{\"a\":\"\\uzzzz\"}", "bad escape" },
	{ "{\"a\":\"\\U0041\"}", "bad escape" },
	{ "{\"a\":\"\\u0000\"}", "escaped NUL" },
	{ "{\"a\":\"x\\u0000y\"}", "escaped NUL" },
	{ "{\"\\u0000\":1}", "escaped NUL" },
	{ "{\"a\":\"\\ud83d\\ude00\"}", NULL },
	{ "{\"a\":\"\\uDBFF\\uDFFF\"}", NULL },
	{ "{\"a\":\"\\ud83d\"}", "unpaired surrogate" },
	{ "{\"a\":\"\\ude00\"}", "unpaired surrogate" },
	{ "{\"a\":\"\\ud83d\\ud83d\"}", "unpaired surrogate" },
	{ "{\"a\":\"\\ud83dx\\ude00\"}", "unpaired surrogate" },
	{ "{\"a\":\"\\ud83d\\n\"}", "unpaired surrogate" },
	{ "{\"a\":\"\\ud83d\\u12", "unpaired surrogate" },
	/* UTF-8. */
	{ "{\"a\":\"\xc2\x80\xdf\xbf\"}", NULL },
	{ "{\"a\":\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"}", NULL },
	{ "{\"a\":\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"}", NULL },
	{ "{\"a\":\"\x80\"}", "bad UTF-8" },
	{ "{\"a\":\"\xbf\"}", "bad UTF-8" },
	{ "{\"a\":\"\xc0\x80\"}", "bad UTF-8" },
	{ "{\"a\":\"\xc1\xbf\"}", "bad UTF-8" },
	{ "{\"a\":\"\xc3\"}", "bad UTF-8" },
	{ "{\"a\":\"\xe0\x9f\xbf\"}", "bad UTF-8" },
	{ "{\"a\":\"\xed\xa0\x80\"}", "bad UTF-8" },
	{ "{\"a\":\"\xe2\x82\"}", "bad UTF-8" },
	{ "{\"a\":\"\xf0\x8f\xbf\xbf\"}", "bad UTF-8" },
	{ "{\"a\":\"\xf4\x90\x80\x80\"}", "bad UTF-8" },
	{ "{\"a\":\"\xf5\x80\x80\x80\"}", "bad UTF-8" },
	{ "{\"a\":\"\xf0\x9f\x98\"}", "bad UTF-8" },
	{ "{\"a\":\"\xff\"}", "bad UTF-8" },
	{ "{\"a\":\"\xc3", "bad UTF-8" },
	{ "{\"\xff\":1}", "bad UTF-8" },
	/* Keys. */
	{ "{\"a\":1,\"A\":2,\"a \":3}", NULL },
	{ "{\"a\":1,\"b\":{\"a\":1}}", NULL },
	{ "{\"a\":1,\"a\":2}", "duplicate key" },
	{ "{\"a\":1,\"\\u0061\":2}", "duplicate key" },
	{ "{\"x\":[{\"a\":1,\"b\":0,\"a\":2}]}", "duplicate key" },
	{ "{\"\":1,\"\":2}", "duplicate key" },
	{ "{\"\\u00010\":1,\"\\u00010\":2}", "duplicate key" },
	{ "{\"\\u00010\":1,\"\\u0001\\u0030\":2}", "duplicate key" },
	{ "{\"\\u00010\":1,\"\\u00011\":2}", NULL },
};

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void test_samples(void)
{
	size_t i;

	for (i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		const char *line = samples[i].line;
		/* An exact copy, so that a sanitizer sees each byte too many. */
		size_t len = strlen(line);
		char *copy = malloc(len + 1);
		const char *what;

		if (!copy)
			abort();
		memcpy(copy, line, len + 1);
		what = fault(copy, len);
		check(same(what, samples[i].what), "%.50s: %s", line, what ? what : "good");
		free(copy);
	}
}

static void test_nul(void)
{
	check(same(fault("{\"a\":\"x\0y\"}", 11), "control byte"), "a NUL in a string");
	check(same(fault("{\"a\":1\0}", 8), "control byte"), "a NUL between tokens");
	check(same(fault("{}\0", 3), "control byte"), "a NUL behind the object");
}

/* Every byte value at every place of a block, alone in a plain string. */
static void test_fast_path(void)
{
	bool good = true;
	char line[80];
	int at, c;

	for (at = 0; at < 40; at++)
		for (c = 0; c < 256; c++) {
			int n = sprintf(line, "{\"a\":\"%040d\"}", 0);
			bool bad = c < 0x20 || c == '"' || c == '\\' || c >= 0x80;

			line[6 + at] = (char)c;
			good &= (fault(line, (size_t)n) != NULL) == bad;
		}
	check(good, "every byte at every place of a plain string");
}

static void fill(struct buf *b, const char *head, const char *piece, int n, const char *tail)
{
	int i;

	buf_clear(b);
	buf_str(b, head);
	for (i = 0; i < n; i++)
		buf_str(b, piece);
	buf_str(b, tail);
}

static void test_limits(void)
{
	struct buf b = { 0 };
	int i;

	fill(&b, "{\"a\":", "[", 31, "");
	for (i = 0; i < 31; i++)
		buf_char(&b, ']');
	buf_char(&b, '}');
	check(!fault(b.data, b.len), "32 levels");
	fill(&b, "{\"a\":", "[", 32, "]");
	check(same(fault(b.data, b.len), "more than 32 levels"), "33 levels");
	fill(&b, "{\"a\":", "{\"a\":", 31, "1");
	for (i = 0; i < 32; i++)
		buf_char(&b, '}');
	check(!fault(b.data, b.len), "32 levels of objects");
	fill(&b, "{\"a\":[", "0,", 49997, "0]}");
	check(!fault(b.data, b.len), "50000 values");
	fill(&b, "{\"a\":[", "0,", 49998, "0]}");
	check(same(fault(b.data, b.len), "more than 50000 values"), "50001 values");
	buf_free(&b);
}

static void test_many_keys(void)
{
	struct buf b = { 0 };
	int n, i;

	for (n = 30; n < 36; n++) {
		bool good;

		buf_clear(&b);
		for (i = 0; i < n; i++)
			buf_printf(&b, "%s\"k%d\":%d", i ? "," : "{", i, i);
		buf_char(&b, '}');
		good = !fault(b.data, b.len);
		b.len--;
		buf_str(&b, ",\"k0\":1}");
		check(good && same(fault(b.data, b.len), "duplicate key"), "%d keys", n);
	}
	/* Quadratic work on this would take a minute. */
	buf_clear(&b);
	for (i = 0; i < 49999; i++)
		buf_printf(&b, "%s\"%d\":%d", i ? "," : "{", i, i);
	buf_char(&b, '}');
	check(!fault(b.data, b.len), "49999 keys");
	buf_free(&b);
}

int main(void)
{
	test_samples();
	test_nul();
	test_fast_path();
	test_limits();
	test_many_keys();
	return check_done();
}

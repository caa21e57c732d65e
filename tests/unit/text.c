/* text.c - strings of a row, in the tree or as spans, both ways. */
#include "check.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "row/loop.h"
#include "row/print.h"
#include "row/row.h"
#include "row/span.h"

static struct rng rng;
static struct buf printed;

/* Parses and prints; NULL for a bad row. */
static const char *round_trip(struct row *r, const char *line)
{
	jmp_buf jump;

	row_reset();
	*r = (struct row){ .file = "test", .line = 1 };
	row_catch = &jump;
	if (setjmp(jump)) {
		row_catch = NULL;
		return NULL;
	}
	row_parse(r, line, strlen(line), true);
	row_catch = NULL;
	buf_clear(&printed);
	print_json(&printed, r->root);
	return printed.data;
}

static void done(struct row *r)
{
	json_free(r->root);
	r->root = NULL;
}

/* A string of at least 256 raw bytes keeps its spelling, whatever it is; and
 * means what cJSON says. */
static void test_spans(void)
{
	static const char *const pieces[] = {
		"plain",
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
		"\xc3\xa9",
		"\\u20ac",
		"\xe2\x82\xac",
		"\\ud83d\\ude00",
		"\\uD83D\\uDE00",
		"\xf0\x9f\x98\x80",
		"\\u0001",
		"\\u0041",
		"\\u001f",
		"\\u007f",
		"\x7f",
		"{",
		"}",
		"[",
		",",
		":",
	};
	bool kept = true, meant = true, raw = true;
	struct buf line = { 0 };
	int i;

	for (i = 0; i < 20000 && kept && meant && raw; i++) {
		int n = 1 + (int)rng_below(&rng, 4), k;
		struct row r;
		json *whole, *a, *b;
		size_t from, len, text_len;

		buf_clear(&line);
		buf_char(&line, '{');
		for (k = 0; k < n; k++) {
			buf_printf(&line, "%s\"k%d\":\"", k ? "," : "", k);
			from = line.len;
			while (line.len - from < SPAN_MIN)
				buf_str(&line,
				        pieces[rng_below(&rng, sizeof(pieces) / sizeof(*pieces))]);
			buf_char(&line, '"');
		}
		buf_char(&line, '}');
		kept = round_trip(&r, line.data) && strcmp(printed.data, line.data) == 0;
		whole = json_parse(line.data, line.len);
		for (a = json_first(r.root), b = json_first(whole); a;
		     a = json_next(a), b = json_next(b)) {
			const char *text = row_text(&r, a, &text_len), *bytes;

			meant &= strlen(json_str(b)) == text_len && strcmp(json_str(b), text) == 0;
			meant &= strcmp(row_str(&r, r.root, "", json_key(a)), json_str(b)) == 0;
			bytes = row_raw(&r, a, &len);
			raw &= len >= SPAN_MIN && bytes[-1] == '"' && bytes[len] == '"';
		}
		json_free(whole);
		done(&r);
	}
	check(kept, "spans are printed back byte for byte");
	check(meant, "row_text and row_str give what cJSON reads");
	check(raw, "row_raw gives the bytes between the quotes");
	buf_free(&line);
}

static void test_length(void)
{
	char line[400], str[300];
	struct row r;
	int n;

	for (n = 254; n < 259; n++) {
		bool mark;

		memset(str, 'x', (size_t)n);
		str[n] = '\0';
		sprintf(line, "{\"a\":\"%s\"}", str);
		round_trip(&r, line);
		mark = json_str(json_get(r.root, "a"))[0] == SPAN_MARK;
		check(mark == (n >= SPAN_MIN) && strcmp(printed.data, line) == 0, "%d bytes", n);
		done(&r);
	}
}

static void test_forged(void)
{
	char line[700], long_text[301];
	struct row r;
	size_t len;

	memset(long_text, 'x', 300);
	long_text[300] = '\0';
	sprintf(line, "{\"a\":\"\\u00011\",\"b\":\"%s\",\"c\":\"\\u00010\",\"d\":\"\\u0001\"}",
	        long_text);
	check(round_trip(&r, line) && strcmp(printed.data, line) == 0,
	      "forged marks print as they are");
	check(strcmp(row_text(&r, json_get(r.root, "a"), &len), "\0011") == 0 && len == 2,
	      "and mean what they say");
	done(&r);
	sprintf(line, "{\"\\u00010\":1,\"b\":\"%s\",\"\\u00011\":{\"\\u00012\":2}}", long_text);
	check(round_trip(&r, line) && strcmp(printed.data, line) == 0, "forged keys too");
	done(&r);
	/* The byte sequence of a mark inside another string. */
	strcpy(line, "{\"a\":\"\\\"\\u00010\",\"b\":\"\\\\\",\"c\":\"x\\u00010\"}");
	check(round_trip(&r, line) && strcmp(printed.data, line) == 0,
	      "marks within strings are none");
	done(&r);
	check(!round_trip(&r, "{\"\\u00010\":1,\"\\u0001\\u0030\":1}"),
	      "equal forged keys are duplicates");
	strcpy(line, "{\"a\":\"\\u0001\"}");
	check(!json_get((round_trip(&r, line), r.root), "b"), "a lone mark byte parses");
	done(&r);
}

/* What a filter makes prints like cJSON's and reads back the same. */
static void test_made(void)
{
	static const char *const pieces[] = {
		"a",
		"\"",
		"\\",
		"/",
		"\n",
		"\t",
		"\r",
		"\b",
		"\f",
		"\x01",
		"\x1f",
		"\x7f",
		"\xc3\xa9",
		"\xf0\x9f\x98\x80",
		"some words of text ",
	};
	bool same = true, back = true, escape = true;
	struct buf text = { 0 }, escaped = { 0 };
	int i;

	for (i = 0; i < 20000 && same && back && escape; i++) {
		int n = (int)rng_below(&rng, 80);
		struct row r = { .file = "test" };
		struct buf plain = { 0 };
		json *j, *inner;
		size_t len;

		row_reset();
		buf_clear(&text);
		buf_reserve(&text, 0);
		while (n--)
			buf_str(&text, pieces[rng_below(&rng, sizeof(pieces) / sizeof(*pieces))]);
		j = json_new_object();
		json_add(j, "made", row_new_text(&r, text.data, text.len));
		buf_clear(&escaped);
		row_escape(&escaped, text.data, text.len);
		json_add(j, "raw", row_new_raw(&r, escaped.data ? escaped.data : "", escaped.len));
		buf_clear(&printed);
		print_json(&printed, j);
		buf_printf(&plain, "{\"made\":\"%s\",\"raw\":\"%s\"}",
		           escaped.data ? escaped.data : "", escaped.data ? escaped.data : "");
		same = strcmp(plain.data, printed.data) == 0;
		inner = json_parse(printed.data, printed.len);
		back = strcmp(json_str(json_get(inner, "raw")), text.data) == 0;
		back &= strcmp(row_text(&r, json_get(j, "made"), &len), text.data) == 0 &&
		        len == text.len;
		escape = !memcmp(row_raw(&r, json_get(j, "made"), &len),
		                 escaped.data ? escaped.data : "", len) &&
		         len == escaped.len;
		json_free(inner);
		json_free(j);
		buf_free(&plain);
	}
	check(same, "made texts print as escaped");
	check(back, "and read back as given");
	check(escape, "row_raw escapes as the writer does");
	buf_free(&text);
	buf_free(&escaped);
}

static void test_normal_forms(void)
{
	static const char *const pairs[][2] = {
		{ "{\"a\":\"\\/\\u00e9\\u0041\\u000a\"}", "{\"a\":\"/\xc3\xa9"
		                                          "A\\n\"}" },
		{ "{ \"a\" : [ 1.0 , 1e2 , -0 , 0.10 ] }", "{\"a\":[1,100,0,0.1]}" },
		{ "{\"a\":-0.0}", "{\"a\":0}" },
		{ "{\"\\u0061\":{}}", "{\"a\":{}}" },
	};
	size_t i;

	for (i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct row r;
		const char *got = round_trip(&r, pairs[i][0]);

		check(got && strcmp(got, pairs[i][1]) == 0, "%s becomes %s", pairs[i][0],
		      pairs[i][1]);
		done(&r);
	}
}

static void test_show(void)
{
	char text[100];

	check(strcmp(row_show("plain \xc3\xa9", 8), "plain \xc3\xa9") == 0,
	      "text is shown as it is");
	check(strcmp(row_show("a\0b\n\x1b[m\x7f\xff\xc3", 10),
	             "a\\x00b\\x0a\\x1b[m\\x7f\\xff\\xc3") == 0,
	      "other bytes in hexadecimal");
	memset(text, 'x', 100);
	check(strlen(row_show(text, 60)) == 60, "60 bytes are shown whole");
	check(strlen(row_show(text, 61)) == 63, "61 are cut, with dots");
	memcpy(text + 58, "\xe2\x82\xac", 3);
	check(strncmp(row_show(text, 100) + 57, "x...", 4) == 0, "no character is cut");
}

int main(void)
{
	/* Refused rows print messages, which the report does without. */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	rng = rng_make(1, "unit/text");
	test_spans();
	test_length();
	test_forged();
	test_made();
	test_normal_forms();
	test_show();
	buf_free(&printed);
	return check_done();
}

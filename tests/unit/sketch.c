/* sketch.c - episode/sketch: exact while small, close when large, and the
 * same in whatever order parts are merged. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "episode/sketch.h"

static struct sketch one, parts[3], merged;
static struct buckets cells, more;

static uint64_t item(int i)
{
	return rng_mix((uint64_t)i);
}

static void print(struct sketch *s, struct buf *out)
{
	buf_clear(out);
	sketch_print(s, out);
}

static void test_small(void)
{
	memset(&one, 0, sizeof one);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 1000; i++)
			sketch_add(&one, item(i), 1);
	check(sketch_distinct(&one) == 1000, "1000 different items are 1000");
	check(fabs(sketch_repeats(&one) - 2.0 / 3) < 1e-12, "two thirds of them repeat");
	sketch_add(&one, 0, 1);
	check(sketch_distinct(&one) == 1001, "0 is a hash like any other");
}

/* n items, i going to part i % 3, each (i % 4) + 1 times. */
static void test_merge(int n)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 } };
	struct buf whole = { 0 }, text = { 0 };
	bool same = true;

	memset(&one, 0, sizeof one);
	memset(parts, 0, sizeof parts);
	for (int round = 0; round < 4; round++)
		for (int i = 0; i < n; i++)
			if (round <= i % 4) {
				sketch_add(&one, item(i), 1);
				/* Every third item comes in two parts. */
				sketch_add(&parts[(i + (i % 3 ? 0 : round)) % 3], item(i), 1);
			}
	print(&one, &whole);
	check(fabs(sketch_distinct(&one) / n - 1) < 0.05, "%d different items: %.0f", n,
	      sketch_distinct(&one));
	check(fabs(sketch_repeats(&one) - 0.6) < 0.03, "three fifths of them repeat: %.3f",
	      sketch_repeats(&one));
	for (int k = 0; k < 3; k++) {
		memset(&merged, 0, sizeof merged);
		for (int j = 0; j < 3; j++) {
			print(&parts[orders[k][j]], &text);
			same &= sketch_read(&merged, text.data);
		}
		print(&merged, &text);
		same &= !strcmp(text.data, whole.data) &&
		        sketch_distinct(&merged) == sketch_distinct(&one);
	}
	check(same, "%d items: parts merge to the whole in any order", n);
	/* A merged part is a part. */
	memset(&merged, 0, sizeof merged);
	same = sketch_read(&merged, whole.data);
	print(&merged, &text);
	check(same && !strcmp(text.data, whole.data), "%d items: read as printed", n);
	buf_free(&whole);
	buf_free(&text);
}

static void test_tags(void)
{
	memset(&one, 0, sizeof one);
	for (int i = 0; i < 40000; i++)
		sketch_add(&one, (item(i) & ~UINT64_C(0xff)) | (i % 10 == 0 ? 1 : 2), 1);
	check(fabs(sketch_distinct_tag(&one, 1) / 4000 - 1) < 0.15,
	      "a tenth has tag 1: %.0f of 4000", sketch_distinct_tag(&one, 1));
	check(sketch_distinct_tag(&one, 3) == 0, "none has tag 3");
}

static void test_bad(void)
{
	static const char *const bad[] = { "x",
		                           "0123",
		                           "0123456789abcdef",
		                           "0123456789abcdef=",
		                           "0123456789abcdef=-1",
		                           "0123456789abcdef=1x" };
	bool refused = true;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		refused &= !sketch_read(&merged, bad[i]);
	refused &= !buckets_read(&cells, "x") && !buckets_read(&cells, "1") &&
	           !buckets_read(&cells, "9999999:1") && !buckets_read(&cells, "-1:1") &&
	           !buckets_read(&cells, "1:0");
	check(refused, "texts that are no sketch are refused");
}

static void test_buckets(void)
{
	struct buf text = { 0 }, again = { 0 };

	memset(&cells, 0, sizeof cells);
	for (int i = 0; i < 20000; i++)
		buckets_add(&cells, item(i % 50 ? i : 7));
	check(buckets_most(&cells) >= 400 && buckets_most(&cells) < 430,
	      "the commonest of 20000 occurs 400 times, at most %lld",
	      (long long)buckets_most(&cells));
	buckets_print(&cells, &text);
	check(buckets_read(&more, text.data), "a table reads as printed");
	buckets_print(&more, &again);
	check(!strcmp(text.data, again.data), "and prints the same");
	buckets_read(&more, text.data);
	check(buckets_most(&more) == 2 * buckets_most(&cells), "reading adds");
	buf_free(&text);
	buf_free(&again);
}

int main(void)
{
	test_small();
	test_merge(100);
	test_merge(SKETCH_KEEP);
	test_merge(SKETCH_KEEP + 1);
	test_merge(3 * SKETCH_KEEP);
	test_merge(100000);
	test_tags();
	test_bad();
	test_buckets();
	return check_done();
}

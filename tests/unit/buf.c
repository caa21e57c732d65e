/* buf.c - base/buf and base/arena. */
#include "check.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"

static void test_buf(void)
{
	struct buf b = { 0 };
	char long_text[1000];
	bool ended = true;
	int i;

	buf_clear(&b);
	check(!b.len, "an empty buffer can be cleared");
	for (i = 0; i < 1000; i++) {
		buf_char(&b, (char)('a' + i % 26));
		ended &= !b.data[b.len] && b.len == (size_t)i + 1;
	}
	check(ended, "always NUL-terminated");
	buf_clear(&b);
	check(!b.len && !b.data[0], "cleared");
	memset(long_text, 'x', 999);
	long_text[999] = '\0';
	buf_printf(&b, "%d-%s", 7, long_text);
	check(b.len == 1001 && !strncmp(b.data, "7-xxx", 5) && strlen(b.data) == 1001,
	      "printf grows the buffer");
	buf_add(&b, "\0z", 2);
	check(b.len == 1003 && b.data[1002] == 'z', "any bytes");
	buf_add(&b, NULL, 0);
	buf_str(&b, "");
	check(b.len == 1003, "nothing adds nothing");
	buf_free(&b);
	check(!b.data && !b.len, "freed to empty");
	buf_reserve(&b, 0);
	check(b.data && !b.data[0], "reserved is a string");
	buf_free(&b);
}

static void test_arena(void)
{
	static struct arena a; /* kept to the end: there is no arena_free */
	char *first = NULL, *p;
	bool aligned = true, held = true, whole = true;
	int round, i, k;

	for (round = 0; round < 3; round++) {
		char *list[200];

		arena_reset(&a);
		for (i = 0; i < 200; i++) {
			size_t n = (size_t)(i * i % 7919 + (i == 100 ? 1000000 : 0));

			p = list[i] = arena_alloc(&a, n + 1);
			aligned &= (uintptr_t)p % 16 == 0;
			held &= arena_holds(&a, p) && arena_holds(&a, p + n);
			memset(p, i, n + 1);
		}
		for (i = 0; i < 200; i++)
			for (k = 0; k <= i * i % 7919; k++)
				whole &= list[i][k] == (char)i;
		if (round)
			whole &= first == list[0];
		first = list[0];
	}
	check(aligned, "arena: aligned to 16");
	check(held && !arena_holds(&a, &a) && !arena_holds(&a, NULL), "arena: knows its own");
	check(whole, "arena: nothing overlaps, memory is used again");
}

int main(void)
{
	test_buf();
	test_arena();
	return check_done();
}

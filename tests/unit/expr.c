/* expr.c - the markers' integer expressions against C's own answers. */
#include "kernels/expr.h"

#include <string.h>

#include "check.h"

static struct symbols symbols;
static int64_t values[EXPR_MAX_SYMBOLS];

static void set(const char *name, int64_t v)
{
	values[symbols_slot(&symbols, name, (int)strlen(name))] = v;
}

static void equals(const char *text, int64_t want)
{
	struct expr e;
	const char *what = expr_compile(text, (int)strlen(text), &symbols, &e);
	int64_t got = 0;
	bool ok = !what && expr_eval(&e, values, &got);

	check(ok && got == want, "%s is %lld%s%s", text, (long long)want, what ? ": " : "",
	      what ? what : "");
	expr_free(&e);
}

/* The names that an expression reads, in order. */
static void reads(const char *text, const char *want)
{
	struct expr e;
	char got[100] = "";

	if (!expr_compile(text, (int)strlen(text), &symbols, &e)) {
		for (int i = 0; i < e.n; i++) {
			int slot = expr_slot(&e, i);

			if (slot >= 0) {
				strcat(got, symbols.name[slot]);
				strcat(got, " ");
			}
		}
	}
	check(strcmp(got, want) == 0, "'%s' reads '%s'", text, got);
	expr_free(&e);
}

static void fails(const char *text)
{
	struct expr e;
	const char *what = expr_compile(text, (int)strlen(text), &symbols, &e);
	int64_t got;

	check(!what && !expr_eval(&e, values, &got) && got == 0, "%s has no value", text);
	expr_free(&e);
}

static void refused(const char *text)
{
	struct expr e;

	check(expr_compile(text, (int)strlen(text), &symbols, &e) != NULL, "'%s' is refused", text);
}

int main(void)
{
	set("K", 100);
	set("BK", 64);
	set("splits", 3);
	set("big", (int64_t)1 << 62);
	equals("1+2*3-4/2%3", 1 + 2 * 3 - 4 / 2 % 3);
	equals("(1+2)*3", 9);
	equals("7-2-1", 7 - 2 - 1);
	equals("-7/2", -7 / 2);
	equals("-7%3", -7 % 3);
	equals("K%BK!=0", 1);
	equals("splits >= 2 && K % BK != 0", 1);
	equals("splits<2||K<=100", 1);
	equals("0||0", 0);
	equals("2&&3", 1);
	equals("!splits", 0);
	equals("!0+1", 2);
	equals("1<<4+1", 1 << (4 + 1));
	equals("1<2<<1", 1 < (2 << 1));
	equals("256>>3", 32);
	equals("K>50?BK:splits", 64);
	equals("K<50?BK:K<200?7:8", 7);
	equals("0?1/0:5", 5);
	equals("0&&1/0", 0);
	equals("1||1/0", 1);
	equals("cdiv(100,64)", 2);
	equals("cdiv(128,64)", 2);
	equals("cdiv(0-1,64)", 0);
	equals("min(K,BK)+max(K,BK)", 164);
	equals("pow2(100)", 128);
	equals("pow2(128)", 128);
	equals("max(min(1,2),min(3,4))", 3);
	equals("(K==100)*10+(K!=100)", 10);
	reads("1+2*64", "");
	reads("K>=64&&BK<K?cdiv(K,BK):7", "K BK K K BK ");
	fails("1/0");
	fails("K%(BK-64)");
	fails("big*4");
	fails("big+big");
	refused("");
	refused("1+");
	refused("(1");
	refused("1 2");
	refused("min(1)");
	refused("a ? 1");
	refused("99999999999999999999");
	refused("K @ 2");
	return check_done();
}

/* print.c - row/print against cJSON's own printing, and its stability. */
#include "check.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/rng.h"
#include "row/json.h"
#include "row/print.h"

/* cJSON.h is the facade's alone; this is what the test compares with. */
char *cJSON_PrintUnformatted(const json *j);
void cJSON_free(void *p);

static struct rng rng;
static struct buf ours;

static const char *print(double x)
{
	buf_clear(&ours);
	print_number(&ours, x);
	ours.data[ours.len] = '\0';
	return ours.data;
}

static bool like_cjson(double x)
{
	json *j = json_new_num(x);
	char *theirs = cJSON_PrintUnformatted(j);
	bool same = theirs && strcmp(print(x), theirs) == 0;

	if (!same)
		printf("# %.17g: %s, cJSON %s\n", x, print(x), theirs);
	cJSON_free(theirs);
	json_free(j);
	return same;
}

/* What comes back through cJSON prints the same again. */
static bool stable(double x)
{
	char first[40];
	json *j;
	bool same;

	strcpy(first, print(x));
	j = json_parse(first, strlen(first));
	same = j && strcmp(print(json_num(j)), first) == 0;
	json_free(j);
	return same;
}

static double any_bits(void)
{
	uint64_t bits;
	double x;

	do {
		bits = rng_u64(&rng);
		memcpy(&x, &bits, 8);
	} while (!(fabs(x) <= 1.79769313486231e+308));
	return x;
}

static double sign(void)
{
	return rng_u64(&rng) & 1 ? 1 : -1;
}

typedef double draw(void);

static double integers(void)
{
	return sign() * (double)(rng_u64(&rng) >> rng_below(&rng, 64));
}

static double times(void)
{
	return num_time(num_exp2(rng_unit(&rng) * 60 - 30));
}

static double values(void)
{
	return sign() * num_value(num_exp2(rng_unit(&rng) * 100 - 50));
}

static double fifteen(void)
{
	return sign() * num_round(num_exp2(rng_unit(&rng) * 100 - 50), 15);
}

static double short_decimals(void)
{
	return sign() * (double)rng_below(&rng, 100000) / 1000;
}

static double units(void)
{
	return rng_unit(&rng);
}

/* Doubles around powers of ten, where digits and notation change. */
static double near_powers(void)
{
	double x = num_round(pow(10, (double)rng_below(&rng, 40) - 20), 15);
	int64_t bits;

	memcpy(&bits, &x, 8);
	bits += (int64_t)rng_below(&rng, 9) - 4;
	memcpy(&x, &bits, 8);
	return sign() * x;
}

static void compare(const char *name, draw *next, int n)
{
	bool same = true, firm = true;
	int i;

	for (i = 0; i < n && same && firm; i++) {
		double x = next();

		same = like_cjson(x);
		firm = stable(x);
	}
	check(same, "%s print as cJSON's", name);
	check(firm, "%s are stable through print, parse, print", name);
}

/* The numbers of a data set: rounded when made, they come back unchanged. */
static void test_million(void)
{
	bool exact = true;
	int i;

	for (i = 0; i < 1000000 && exact; i++) {
		double x = i % 2 ? times() : values();

		exact = strtod(print(x), NULL) == x;
	}
	check(exact, "a million rounded numbers come back unchanged");
}

static void test_edges(void)
{
	static const double edge[] = {
		0,
		1,
		-1,
		0.1,
		0.5,
		1e-4,
		9.99999999999999e-5,
		0.00012345,
		1e-5,
		1e14,
		1e15,
		1e16,
		999999999999999,
		999999999999999.9,
		99999999999999.9,
		1e21,
		1e22,
		5e-324,
		2.2250738585072014e-308,
		9007199254740992,
		9007199254740994,
		0.1 + 0.2,
		1.0 / 3,
		123456.789,
		4.35,
		0.000123,
	};
	bool same = like_cjson(-0.0);
	size_t i;

	for (i = 0; i < sizeof(edge) / sizeof(*edge); i++)
		same = like_cjson(edge[i]) && like_cjson(-edge[i]) && same;
	check(same, "edges print as cJSON's");
}

/* --- trees ---------------------------------------------------------------- */

static void random_text(char *to, int most)
{
	static const char *const pieces[] = {
		"a",
		"Z",
		" ",
		"\"",
		"\\",
		"/",
		"\b",
		"\f",
		"\n",
		"\r",
		"\t",
		"\x02",
		"\x1f",
		"\x7f",
		"\xc3\xa9",
		"\xe2\x82\xac",
		"\xf0\x9f\x98\x80",
		"longer piece of text",
	};
	int n = (int)rng_below(&rng, (uint64_t)most), i;

	*to = '\0';
	for (i = 0; i < n; i++)
		strcat(to, pieces[rng_below(&rng, sizeof(pieces) / sizeof(*pieces))]);
}

static json *random_tree(int depth)
{
	char text[400];
	json *j;
	int n, i;

	switch (rng_below(&rng, depth ? 7 : 5)) {
	case 0:
		return json_new_null();
	case 1:
		return json_new_bool(rng_u64(&rng) & 1);
	case 2:
		return json_new_num(values());
	case 3:
		return json_new_num(integers());
	case 4:
		random_text(text, 15);
		return json_new_str(text);
	}
	n = (int)rng_below(&rng, 6);
	j = rng_u64(&rng) & 1 ? json_new_array() : json_new_object();
	for (i = 0; i < n; i++) {
		random_text(text, 5);
		if (json_is_array(j))
			json_push(j, random_tree(depth - 1));
		else
			json_add(j, text, random_tree(depth - 1));
	}
	return j;
}

static void test_trees(void)
{
	bool same = true;
	int i;

	for (i = 0; i < 20000 && same; i++) {
		json *j = random_tree(5);
		char *theirs = cJSON_PrintUnformatted(j);

		buf_clear(&ours);
		print_json(&ours, j);
		same = strcmp(ours.data, theirs) == 0;
		if (!same)
			printf("# ours  %s\n# cJSON %s\n", ours.data, theirs);
		cJSON_free(theirs);
		json_free(j);
	}
	check(same, "trees print as cJSON's");
}

int main(void)
{
	rng = rng_make(1, "unit/print");
	test_edges();
	compare("integers", integers, 200000);
	compare("times", times, 200000);
	compare("values", values, 200000);
	compare("numbers of 15 digits", fifteen, 200000);
	compare("short decimals", short_decimals, 100000);
	compare("doubles of the unit interval", units, 100000);
	compare("neighbours of powers of ten", near_powers, 100000);
	compare("doubles of any bits", any_bits, 200000);
	test_million();
	test_trees();
	buf_free(&ours);
	return check_done();
}

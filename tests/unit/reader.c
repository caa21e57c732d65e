/* reader.c - row/reader: lines of every length across its blocks. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "row/reader.h"
#include "row/row.h"

static char path[] = "/tmp/unit_reader_XXXXXX";

static void write_file(const char *data, size_t n)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(data, 1, n, f) != n || fclose(f))
		exit(3);
}

/* Reads the file and compares with the lines that memchr finds. */
static bool agrees(const char *data, size_t n)
{
	struct reader *rd;
	const char *p = data, *end = data + n, *line;
	size_t len;
	bool newline, good = true;
	int64_t count = 0;
	enum reader_got got;

	write_file(data, n);
	rd = reader_open(path);
	while ((got = reader_next(rd, &line, &len, &newline)) != READER_END) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t want = (size_t)((stop ? stop : end) - p);

		good &= reader_lineno(rd) == ++count && p < end;
		if (want > ROW_MAX_BYTES)
			good &= got == READER_TOO_LONG;
		else
			good &= got == READER_LINE && len == want && newline == (stop != NULL) &&
			        !memcmp(line, p, want) && !line[len];
		if (!good)
			break;
		p += want + (stop != NULL);
	}
	good &= p == end;
	reader_close(rd);
	return good;
}

static void test_random(void)
{
	static const size_t longest[] = { 3, 100, 5000, 200000, 700000, 2100000 };
	struct rng rng = rng_make(1, "unit/reader");
	size_t size = 6000000, i, k;
	char *data = malloc(size);

	if (!data)
		exit(3);
	for (k = 0; k < sizeof(longest) / sizeof(*longest); k++) {
		memset(data, 'x', size);
		for (i = 0; i < size; i += 1 + rng_below(&rng, longest[k]))
			data[i] = '\n';
		data[size - 1] = 'x';
		check(agrees(data, size), "lines of up to %zu bytes, the last without newline",
		      longest[k]);
		data[size - 1] = '\n';
		check(agrees(data, size), "the same with one");
	}
	free(data);
}

static void test_edges(void)
{
	size_t size = 2 * ROW_MAX_BYTES + 1000;
	char *data = malloc(size);
	int extra;

	if (!data)
		exit(3);
	memset(data, 'x', size);
	check(agrees("", 0), "an empty file has no line");
	check(agrees("\n", 1) && agrees("\n\n", 2) && agrees("a", 1) && agrees("\na", 2) &&
	              agrees("\0\n", 2),
	      "short files");
	for (extra = -1; extra <= 1; extra++) {
		size_t n = (size_t)(ROW_MAX_BYTES + extra);

		check(agrees(data, n), "one line of %zu bytes", n);
		data[n] = '\n';
		check(agrees(data, n + 1), "with a newline");
		check(agrees(data, n + 9), "and one behind it");
		data[n] = 'x';
	}
	check(agrees(data, size), "one line of 4 MB");
	data[size - 100] = data[size - 50] = '\n';
	check(agrees(data, size), "lines behind a line of 4 MB");
	free(data);
}

static void test_members(void)
{
	static const char row[] = "{ \"a\" : {\"index\":1}, \"index\" : 7 , \"s\":\"x\\\"y\","
				  "\"l\":[1,{\"b\":2}] ,\"z\":null}\n";
	struct reader *rd;
	const char *v;
	size_t len;
	bool torn;

	write_file(row, sizeof(row) - 1);
	rd = reader_open(path);
	reader_line(rd, &len, &torn);
	check(!torn && len == sizeof(row) - 2, "a line");
	v = reader_member(rd, "index", &len);
	check(v && len == 1 && *v == '7', "a number");
	v = reader_member(rd, "s", &len);
	check(v && len == 6 && !memcmp(v, "\"x\\\"y\"", 6), "a string");
	v = reader_member(rd, "a", &len);
	check(v && len == 11 && !memcmp(v, "{\"index\":1}", 11), "an object");
	v = reader_member(rd, "l", &len);
	check(v && len == 11 && !memcmp(v, "[1,{\"b\":2}]", 11), "an array");
	v = reader_member(rd, "z", &len);
	check(v && len == 4 && !memcmp(v, "null", 4), "the last");
	check(!reader_member(rd, "b", &len) && !reader_member(rd, "inde", &len), "nothing else");
	check(!reader_line(rd, &len, &torn), "the end");
	reader_close(rd);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 3;
	close(fd);
	test_random();
	test_edges();
	test_members();
	unlink(path);
	return check_done();
}

/*
 * check.h - the lines of a unit test: "ok N - name" or "not ok N - name".
 *
 * A test is a program: checks in the order of main, then `return check_done()`,
 * which is 0 only if every check held.
 */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int check_count, check_failed;

/* One line of the report; the text is a printf format. */
__attribute__((format(printf, 2, 3))) static void check(bool good, const char *fmt, ...)
{
	va_list ap;

	check_failed += !good;
	printf("%sok %d - ", good ? "" : "not ", ++check_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static int check_done(void)
{
	printf("1..%d\n", check_count);
	return check_failed || fflush(stdout) ? 1 : 0;
}

#endif

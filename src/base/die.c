/* die.c - messages on stderr, exits, and allocation that cannot fail. */
#include "base/die.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program = "?";

void die_init(const char *argv0)
{
	const char *slash;

	if (!argv0 || !*argv0)
		return;
	slash = strrchr(argv0, '/');
	program = slash ? slash + 1 : argv0;
}

const char *die_program(void)
{
	return program;
}

/* Values in messages come from input that nobody vetted: no byte of theirs may
 * steer a terminal or forge a second line. */
static void make_printable(char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
}

/* One write per message, so that the stages of a pipe do not mix theirs. */
static void say(const char *prefix, const char *suffix, const char *fmt, va_list ap)
{
	char text[2048];
	const size_t room = sizeof(text) - 1;
	size_t n, done = 0;
	int k;

	k = snprintf(text, room, "%s: %s", program, prefix);
	n = k < 0 ? 0 : (size_t)k < room ? (size_t)k : room - 1;
	k = vsnprintf(text + n, room - n, fmt, ap);
	n += k < 0 ? 0 : (size_t)k < room - n ? (size_t)k : room - n - 1;
	if (suffix) {
		k = snprintf(text + n, room - n, ": %s", suffix);
		n += k < 0 ? 0 : (size_t)k < room - n ? (size_t)k : room - n - 1;
	}
	make_printable(text, n);
	text[n++] = '\n';
	while (done < n) {
		ssize_t w = write(STDERR_FILENO, text + done, n - done);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return; /* nobody is left to be told */
		done += (size_t)w;
	}
}

void die(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("", NULL, fmt, ap);
	va_end(ap);
	exit(code);
}

void die_errno(const char *fmt, ...)
{
	const char *why = strerror(errno);
	va_list ap;

	va_start(ap, fmt);
	say("", why, fmt, ap);
	va_end(ap);
	exit(EX_IO);
}

void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("", NULL, fmt, ap);
	va_end(ap);
}

void bug(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("BUG: ", NULL, fmt, ap);
	va_end(ap);
	exit(EX_BUG);
}

void *xmalloc(unsigned long n)
{
	return xrealloc(NULL, n);
}

void *xrealloc(void *p, unsigned long n)
{
	void *q = realloc(p, n ? n : 1);

	if (!q)
		die(EX_IO, "cannot allocate %lu bytes", n);
	return q;
}

char *xstrdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(xmalloc(n), s, n);
}

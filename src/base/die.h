/* die.h - the only way that a program says something on stderr or exits. */
#ifndef BASE_DIE_H
#define BASE_DIE_H

/* Exit codes of every program (README, "Exit codes"). */
enum {
	EX_DONE = 0,   /* all rows done */
	EX_ROW = 1,    /* a bad row, or a violation found */
	EX_USAGE_ = 2, /* the command line is wrong */
	EX_IO = 3,     /* cannot read, write or allocate */
	EX_BUG = 4     /* a fault of ours */
};

/* Remembers the last path component of argv0 for all later messages. */
void die_init(const char *argv0);
const char *die_program(void);

/* Each prints "program: MESSAGE\n" to stderr in one write, after flushing
 * nothing: rows already printed stay the caller's. Messages are lower case and
 * have no full stop; values stand in single quotes. */
_Noreturn void die(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with ": strerror(errno)" behind it, exit EX_IO. */
_Noreturn void die_errno(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "program: BUG: MESSAGE", exit EX_BUG. */
_Noreturn void bug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Allocation that cannot fail: dies with EX_IO. Free with free(). */
void *xmalloc(unsigned long n);
void *xrealloc(void *p, unsigned long n);
char *xstrdup(const char *s);

#endif

/*
 * span.h - the strings of the present row that stand outside its tree.
 *
 * In the tree stands a mark: the byte 1 and the span's number in decimal. A
 * string of the input that begins with the byte 1 is always made a span itself,
 * so a row cannot forge a mark. Process-wide, since there is one row at a time.
 */
#ifndef ROW_SPAN_H
#define ROW_SPAN_H

#include <stdbool.h>
#include <stddef.h>

enum { SPAN_MIN = 256, SPAN_MARK = 1, SPAN_MARK_MAX = 16 };

/* JSON-escaped bytes as they stand between the quotes; the memory is the
 * line's or the row arena's. */
struct span {
	const char *raw;
	size_t len;
};

/* Forgets all spans; their marks are void. */
void span_reset(void);
/* Adds one and writes its mark with a NUL; returns the mark's length. */
int span_add(const char *raw, size_t len, char mark[SPAN_MARK_MAX]);
/* Is this string a mark? Dies (bug) for a mark of no present span. */
bool span_find(const char *s, struct span *out);
/* The same, but false for a void mark too. */
bool span_peek(const char *s, struct span *out);

#endif

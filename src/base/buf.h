/* buf.h - a growing byte buffer that is always NUL-terminated. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>

/* The caller owns it; {0} is a valid empty buffer; buf_free releases it. */
struct buf {
	char *data;
	size_t len; /* without the NUL */
	size_t cap;
};

void buf_free(struct buf *b);
void buf_clear(struct buf *b);                /* keeps the memory */
void buf_reserve(struct buf *b, size_t more); /* room for `more` bytes + NUL */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

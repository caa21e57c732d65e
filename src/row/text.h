/* text.h - decoded strings that live as long as the row. */
#ifndef ROW_TEXT_H
#define ROW_TEXT_H

#include <stddef.h>

#include "base/buf.h"

/* Appends what the valid JSON-escaped bytes stand for. */
void text_decode(struct buf *out, const char *raw, size_t len);
/* The same as a C string in the row's arena. */
const char *text_decode_row(const char *raw, size_t len);
/* Gives the arena back. */
void text_reset(void);

#endif

/* reader.h - lines out of files, in place, without a copy per line. */
#ifndef ROW_READER_H
#define ROW_READER_H

#include <stdbool.h>
#include <stddef.h>

struct reader;

enum reader_got { READER_LINE, READER_TOO_LONG, READER_END };

/* The next line, unchecked, with a NUL in the place of its newline; valid until
 * the next call. Of a line over ROW_MAX_BYTES nothing is kept; it counts as a
 * line. *newline is false for a last line that ends without one. */
enum reader_got reader_next(struct reader *rd, const char **line, size_t *len, bool *newline);

#endif

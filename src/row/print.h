/* print.h - a tree as one line of JSON. */
#ifndef ROW_PRINT_H
#define ROW_PRINT_H

#include <stddef.h>

#include "base/buf.h"
#include "row/json.h"

/* Appends the bytes that cJSON_PrintUnformatted would give, with the spans in
 * the place of their marks. */
void print_json(struct buf *out, const json *j);
/* Appends the number as cJSON prints it, without a NUL. */
void print_number(struct buf *out, double x);
/* Appends the JSON escape of n bytes, without quotes. */
void print_escaped(struct buf *out, const char *text, size_t n);

#endif

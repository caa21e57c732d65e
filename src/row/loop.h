/* loop.h - what the two loops (filter.c, source.c) share with the row
 * functions; not for programs. */
#ifndef ROW_LOOP_H
#define ROW_LOOP_H

#include <setjmp.h>

#include "row/row.h"
#include "row/scan.h"

/* Where row_fail goes after its message; NULL: it closes stdout and exits. */
extern jmp_buf *row_catch;

/* Gives the memory of the last row back: arena, spans. */
void row_reset(void);

/* Fails the row that scan_row did not take. `newline`: the line has one. */
_Noreturn void row_fail_scan(const struct row *r, const struct scan *s, const char *line,
                             size_t len, bool newline);

/* Turns a line into r->root, or fails the row. */
void row_parse(struct row *r, const char *line, size_t len, bool newline);

#endif

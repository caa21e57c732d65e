/* progress.h - rows, rate and time left on stderr, for a person who waits. */
#ifndef ROW_PROGRESS_H
#define ROW_PROGRESS_H

#include <stdint.h>

/* Shows anything only if stderr is a terminal, stdout is neither a terminal nor
 * a pipe (there the last program speaks), and -q was not given. `total` is the
 * number of rows to come, -1 when unknown. */
void progress_start(int64_t total);
void progress_row(void);
/* Wipes the line, for a message to stand in its place. */
void progress_clear(void);
/* The last state, and a newline. */
void progress_end(void);

#endif

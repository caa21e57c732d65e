/* out.h - stdout, which is written whole or reported. */
#ifndef BASE_OUT_H
#define BASE_OUT_H

#include <stddef.h>

/* SIGPIPE to its default, even if the parent ignored it: a closed pipe ends
 * the program silently. Gives stdout a large buffer. Idempotent. */
void out_start(void);
/* Dies (EX_IO) if it cannot be written. */
void out_write(const void *p, size_t n);
/* Flushes and closes; dies (EX_IO) if any byte was lost. */
void out_close(void);

#endif

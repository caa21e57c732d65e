/*
 * symbols.h - may this shared object be loaded? What `nm -D` and `readelf -d`
 * would show, read from the file itself.
 */
#ifndef GPURUN_SYMBOLS_H
#define GPURUN_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * True if the object at `path` exports the launcher `op` and nothing else but
 * `<op>_workspace`, leaves undefined only what the ops' definitions allows and what the
 * compiler itself puts there, names no library beyond those, and runs no code
 * of its own when it is loaded. Else `why` (n bytes) says what is wrong, such
 * as "undefined symbol 'cublasCreate_v2'".
 */
bool symbols_allowed(const char *path, const char *op, char *why, size_t n);

#endif

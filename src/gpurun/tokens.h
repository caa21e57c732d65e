/* tokens.h - a source by its tokens: comments and white space do not count. */
#ifndef GPURUN_TOKENS_H
#define GPURUN_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of CUDA C++, or of Python, where indentation and the end of a line count. The
 * n_names `names` count by their place in the list: to call one otherwise in both
 * changes nothing. */
uint64_t tokens_hash(const char *source, size_t n, bool python, const char *const *names,
                     int n_names);

#endif

/* cref_kv_append.h - the addresses of the ops' definitions 14 in plain C. */
#ifndef GPURUN_CREF_KV_APPEND_H
#define GPURUN_CREF_KV_APPEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* source[NP,HKV,P,D]: the element of k[T,HKV,D] (or v) that belongs there, -1
 * where the cache stays as it was. Returns -1 if a slot is neither -1 nor one
 * of NP*P, or comes twice, else 0. */
int cref_kv_append(const double *slot, int64_t *source, int64_t T, int64_t HKV, int64_t D,
                   int64_t P, int64_t NP);

#ifdef __cplusplus
}
#endif

#endif

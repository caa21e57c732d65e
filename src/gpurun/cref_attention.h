/* cref_attention.h - the decode attention of the ops' definitions 1, 2 in plain C. */
#ifndef GPURUN_CREF_ATTENTION_H
#define GPURUN_CREF_ATTENTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* o[b,h,:] = softmax(q[b,h,:] . k[b,g,j,:] * kscale / sqrt(D)) . v[b,g,j,:] * vscale over the keys
 * first <= j < S, with g = h / (H / HKV); q, o[B,H,D], k, v[B,HKV,S,D]. */
void cref_attention(const double *q, const double *k, const double *v, double *o, int64_t B,
                    int64_t H, int64_t HKV, int64_t S, int64_t first, int64_t D, double kscale,
                    double vscale);

#ifdef __cplusplus
}
#endif

#endif

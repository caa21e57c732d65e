/* hash.h - 64-bit content hashes (not cryptographic), the same everywhere. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of n bytes, chained through `seed`; reads 8 bytes a step, little
 * endian whatever the host. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t hash_str(const char *s);
/* 16 lower-case hex digits and NUL. */
void hash_hex(uint64_t h, char out[17]);
/* Exactly 16 lower-case hex digits; 0 on success, -1 otherwise. */
int hash_parse(const char *s, uint64_t *out);

#endif

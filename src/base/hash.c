/* hash.c - 64-bit content hashes, the same on every machine. */
#include "base/hash.h"

#include <string.h>

#include "base/rng.h"

/* The n <= 8 bytes at p as a little-endian word, whatever the host; compilers
 * turn the full word into one load. */
static uint64_t load(const unsigned char *p, size_t n)
{
	uint64_t w = 0;
	size_t i;

	if (n == 8)
		return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
		       (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 |
		       (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
	for (i = 0; i < n; i++)
		w |= (uint64_t)p[i] << 8 * i;
	return w;
}

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *s = p;
	/* The length goes in first: "a" and "a\0" pad to the same word. */
	uint64_t h = rng_mix2(seed, n);

	for (; n >= 8; s += 8, n -= 8)
		h = rng_mix(h ^ load(s, 8));
	return n ? rng_mix(h ^ load(s, n)) : h;
}

uint64_t hash_str(const char *s)
{
	return hash_bytes(s, strlen(s), 0);
}

void hash_hex(uint64_t h, char out[17])
{
	int i;

	for (i = 15; i >= 0; i--, h >>= 4)
		out[i] = "0123456789abcdef"[h & 15];
	out[16] = '\0';
}

int hash_parse(const char *s, uint64_t *out)
{
	uint64_t h = 0;
	int i;

	for (i = 0; i < 16; i++) {
		if (s[i] >= '0' && s[i] <= '9')
			h = h << 4 | (uint64_t)(s[i] - '0');
		else if (s[i] >= 'a' && s[i] <= 'f')
			h = h << 4 | (uint64_t)(s[i] - 'a' + 10);
		else
			return -1;
	}
	if (s[16])
		return -1;
	*out = h;
	return 0;
}

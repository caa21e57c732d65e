/* hash.c - base/hash: frozen values that a big-endian host must give, too. */
#include "check.h"

#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

/* The definition again, byte by byte with arithmetic alone: what any host
 * computes. */
static uint64_t slow_hash(const unsigned char *p, size_t n, uint64_t seed)
{
	uint64_t h = rng_mix(rng_mix(seed) ^ n), word = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		word += (uint64_t)p[i] << 8 * (i % 8);
		if (i % 8 == 7 || i == n - 1) {
			h = rng_mix(h ^ word);
			word = 0;
		}
	}
	return h;
}

static void test_definition(void)
{
	unsigned char data[67];
	bool same = true;
	size_t n, at;

	for (n = 0; n < sizeof(data); n++)
		data[n] = (unsigned char)(n * 37 + 200);
	for (at = 0; at < 3; at++)
		for (n = 0; n + at <= sizeof(data); n++)
			same &= hash_bytes(data + at, n, n) == slow_hash(data + at, n, n);
	check(same, "little endian at every length and alignment");
	check(hash_bytes("a", 1, 0) != hash_bytes("a\0", 2, 0), "padding is told from zeros");
	check(hash_str("abc") == hash_bytes("abc", 3, 0), "hash_str hashes the bytes");
	check(hash_bytes("abc", 3, 0) != hash_bytes("abc", 3, 1), "the seed counts");
}

static void test_frozen(void)
{
	char hex[17];

	hash_hex(hash_str(""), hex);
	check(!strcmp(hex, "a706dd2f4d197e6f"), "hash of nothing is frozen, %s", hex);
	hash_hex(hash_str("kernelswarm"), hex);
	check(!strcmp(hex, "fb8831bb5987606f"), "hash of kernelswarm is frozen, %s", hex);
}

static void test_hex(void)
{
	static const char *const bad[] = {
		"",
		"0123456789abcde",
		"0123456789abcdef0",
		"0123456789ABCDEF",
		"0x23456789abcdef",
		"0123456789abcde ",
		"g123456789abcdef",
	};
	char hex[17];
	uint64_t h = 0;
	bool none = true;
	size_t i;

	hash_hex(0x0123456789abcdefu, hex);
	check(!strcmp(hex, "0123456789abcdef"), "16 lower-case digits");
	check(!hash_parse("fedcba9876543210", &h) && h == 0xfedcba9876543210u, "read back");
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		none &= hash_parse(bad[i], &h) == -1;
	check(none, "nothing else is read");
}

/* One flipped bit of the input flips half of the output. */
static void test_avalanche(void)
{
	unsigned char data[40] = { 0 };
	int flips = 0, bit;

	for (bit = 0; bit < 320; bit++) {
		uint64_t before = hash_bytes(data, sizeof(data), 5);

		data[bit / 8] ^= (unsigned char)(1 << bit % 8);
		flips += __builtin_popcountll(before ^ hash_bytes(data, sizeof(data), 5));
	}
	check(flips > 320 * 30 && flips < 320 * 34, "a flipped bit flips half, mean %.2f",
	      flips / 320.0);
}

int main(void)
{
	test_definition();
	test_frozen();
	test_hex();
	test_avalanche();
	return check_done();
}

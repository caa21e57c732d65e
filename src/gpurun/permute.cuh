// Random permutations without memory, for slots and expert ids that must be distinct.
#pragma once

#include "gpurun/common.cuh"

namespace gpurun {

/// The image of i under a permutation of 0 … n-1 that the seed chooses: a Feistel network over the next power of
/// four, walked until it comes back into the range.
__host__ __device__ inline int64_t permuted(uint64_t seed, int64_t i, int64_t n) {
  int bits = 1;  // of each half
  while (n > (int64_t)1 << 2 * bits) ++bits;
  const uint64_t mask = ((uint64_t)1 << bits) - 1;
  uint64_t x = (uint64_t)i;
  do {
    uint64_t left = x >> bits, right = x & mask;
    for (int round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (gen_hash(seed, 0x70 + round, right) >> 32 & mask);
      left = right;
      right = mixed;
    }
    x = left << bits | right;
  } while (x >= (uint64_t)n);
  return (int64_t)x;
}

}  // namespace gpurun

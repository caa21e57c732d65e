#include "gpurun/stream.cuh"

#include "gpurun/common.cuh"

namespace gpurun {
namespace {

constexpr int kThreads = 256;

struct Work {
  const uint4* in;
  uint4* out;
  int64_t reads, writes;                 // vectors
  int64_t tiles, read_tile, write_tile;  // a tile is what a block does at a time: so many reads, then so many writes
};

struct Hinted {
  static __device__ uint4 load(const uint4* p) { return __ldcs(p); }
  static __device__ void store(uint4* p, uint4 v) { __stcs(p, v); }
};
struct Plain {
  static __device__ uint4 load(const uint4* p) { return __ldg(p); }
  static __device__ void store(uint4* p, uint4 v) { *p = v; }
};

/// UNROLL loads are in flight per thread before the first is used; the stores of a tile follow its loads.
template <int UNROLL, class Access>
__global__ void __launch_bounds__(kThreads) stream_kernel(Work w) {
  // Not zeros, where nothing is read: hardware may treat those kindly.
  uint4 sum = make_uint4(threadIdx.x * 0x9E3779B9u, blockIdx.x * 0x85EBCA6Bu, threadIdx.x ^ 0xC2B2AE35u, ~blockIdx.x);
  for (int64_t tile = blockIdx.x; tile < w.tiles; tile += gridDim.x) {
    const int64_t r0 = tile * w.read_tile, r1 = min(r0 + w.read_tile, w.reads);
    for (int64_t i = r0 + threadIdx.x; i < r1; i += UNROLL * kThreads) {
      uint4 v[UNROLL];
#pragma unroll
      for (int k = 0; k < UNROLL; ++k)
        v[k] = i + k * kThreads < r1 ? Access::load(w.in + i + k * kThreads) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int k = 0; k < UNROLL; ++k) sum.x ^= v[k].x, sum.y ^= v[k].y, sum.z ^= v[k].z, sum.w ^= v[k].w;
    }
    const int64_t w0 = tile * w.write_tile, w1 = min(w0 + w.write_tile, w.writes);
#pragma unroll UNROLL
    for (int64_t i = w0 + threadIdx.x; i < w1; i += kThreads) Access::store(w.out + i, sum);
  }
  // Reads that are never written need a use that the compiler must believe in.
  if (!w.writes && sum.x == 0x9E3779B9u && sum.y == 0x7F4A7C15u && sum.z == 0xF39CC060u) *w.out = sum;
}

using Kernel = void (*)(Work);

struct Choice {
  Kernel kernel;
  int unroll;
  bool persistent;  // as many blocks as are resident; else a block per tile
};

const Choice choices[] = {
    {stream_kernel<1, Plain>, 1, false},  {stream_kernel<4, Plain>, 4, false}, {stream_kernel<8, Plain>, 8, false},
    {stream_kernel<4, Plain>, 4, true},   {stream_kernel<8, Plain>, 8, true},  {stream_kernel<4, Hinted>, 4, false},
    {stream_kernel<8, Hinted>, 8, false}, {stream_kernel<4, Hinted>, 4, true}, {stream_kernel<8, Hinted>, 8, true},
};

int64_t vectors(int64_t bytes) { return (bytes + 15) / 16; }

/// The lesser side's share of each tile, in whole warps: a partly filled 512-byte piece would cost a whole one.
int64_t share(int64_t count, int64_t tiles) { return ((count + tiles - 1) / tiles + 31) / 32 * 32; }

Graph make(const Choice& c, Work w) {
  const int64_t tile = (int64_t)c.unroll * kThreads, larger = w.reads > w.writes ? w.reads : w.writes;
  w.tiles = (larger + tile - 1) / tile;
  w.read_tile = w.reads >= w.writes ? tile : share(w.reads, w.tiles);
  w.write_tile = w.writes > w.reads ? tile : share(w.writes, w.tiles);
  int64_t blocks = w.tiles;
  if (c.persistent) {
    int device, sms, resident;
    check(cudaGetDevice(&device), "device");
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "device");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, c.kernel, kThreads, 0), "occupancy");
    if (blocks > (int64_t)sms * resident) blocks = (int64_t)sms * resident;
  }
  Graph graph;
  graph.capture(
      [&](cudaStream_t s) {
        c.kernel<<<(unsigned)blocks, kThreads, 0, s>>>(w);
        return cudaGetLastError();
      },
      nullptr);
  return graph;
}

}  // namespace

size_t stream_bytes(int64_t bytes) { return (size_t)(bytes > 16 ? vectors(bytes) : 1) * 16; }

float stream_ms(Sampler& sampler, void* in, int64_t bytes_read, void* out, int64_t bytes_written, cudaStream_t s) {
  if (bytes_read < 0 || bytes_written < 0 || bytes_read + bytes_written < 1)
    trouble("a stream of %lld and %lld bytes", (long long)bytes_read, (long long)bytes_written);
  const Work work = {(const uint4*)in, (uint4*)out, vectors(bytes_read), vectors(bytes_written), 0, 0, 0};
  uint64_t seed = 0;
  // As a candidate's samples: what is read was written afresh, what is written holds poison.
  const auto before = [&](int) {
    fill_with(in, E_F32, work.reads * 4, Normal{++seed, 0, 1.f, 0.f}, s);
    poison(out, E_F32, work.writes * 4, s);
  };
  float ms[RUN_MAX_SAMPLES], best = 0;
  const Choice* fastest = nullptr;
  for (const Choice& c : choices) {
    const Graph graph = make(c, work);
    const float m = median(ms, sampler.samples(graph, 5, 0, ms, before, nullptr));
    if (!fastest || m < best) fastest = &c, best = m;
  }
  const Graph graph = make(*fastest, work);
  return median(ms, sampler.samples(graph, 50, 200, ms, before, nullptr));
}

}  // namespace gpurun

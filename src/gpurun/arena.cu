#include "gpurun/arena.cuh"

#include <unistd.h>

#include "gpurun/common.cuh"

namespace gpurun {

Arena::~Arena() { cudaFree(base_); }

void Arena::reserve(size_t bytes) {
  used_ = 0;
  if (bytes <= size_) return;
  if (bytes > limit_) trouble("%zu MiB of device memory wanted, limit %zu MiB", bytes >> 20, limit_ >> 20);
  check(cudaFree(base_), "free arena");
  base_ = nullptr;
  size_ = 0;
  // Whole GiB, so that a run of ever larger shapes does not allocate each time.
  size_t size = (bytes + (1ull << 30) - 1) >> 30 << 30;
  if (size > limit_) size = limit_;
  for (int tries = 0; cudaMalloc((void**)&base_, size) != cudaSuccess; ++tries) {
    const cudaError_t e = cudaGetLastError();
    base_ = nullptr;
    if (e != cudaErrorMemoryAllocation || tries == 100)
      trouble("no %zu MiB of device memory: %s", size >> 20, cudaGetErrorName(e));
    usleep(100000);
  }
  size_ = size;
}

void* Arena::take(size_t bytes) {
  if (taken(bytes) > size_ - used_) trouble("the arena of %zu MiB is full", size_ >> 20);
  void* p = base_ + used_;
  used_ += taken(bytes);
  return p;
}

void* Arena::take_guarded(size_t bytes) { return (char*)take(taken_guarded(bytes)) + kGuardBytes; }

Instance lay_out(const OpModule& op, const Shape& shape, Dtype dtype) {
  Instance in = {};
  in.shape = shape;
  in.dtype = dtype;
  in.n = op.layout(shape, dtype, in.buffer);
  if (in.n < 1 || in.n > kMaxBuffers) trouble("%s: %d buffers", op.name, in.n);
  for (int i = 0; i < in.n; ++i)
    if (in.buffer[i].count < 1)
      trouble("%s: %s has %lld elements", op.name, in.buffer[i].name, (long long)in.buffer[i].count);
  return in;
}

size_t buffer_bytes(const Instance& in) {
  size_t sum = 0;
  for (int i = 0; i < in.n; ++i)
    sum += Arena::taken_guarded((size_t)in.buffer[i].count * elem_bytes(in.buffer[i].elem));
  return sum;
}

void place_buffers(Arena& arena, Instance* in) {
  for (int i = 0; i < in->n; ++i)
    in->ptr[i] = arena.take_guarded((size_t)in->buffer[i].count * elem_bytes(in->buffer[i].elem));
}

Regions guarded_regions(const Placed& p) {
  Regions all = {};
  for (int i = 0; i < p.in.n; ++i) all.region[all.n++] = {p.in.ptr[i], p.in.buffer[i].count, p.in.buffer[i].elem};
  if (p.workspace) all.region[all.n++] = {p.workspace, (int64_t)p.workspace_bytes, E_U8};
  return all;
}

Regions regions_of(const Instance& in, Role role) {
  Regions all = {};
  for (int i = 0; i < in.n; ++i)
    if (in.buffer[i].role == role) all.region[all.n++] = {in.ptr[i], in.buffer[i].count, in.buffer[i].elem};
  return all;
}

}  // namespace gpurun

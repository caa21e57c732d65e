// Where a problem's buffers lie: one allocation for everything, each buffer between two guards.
#pragma once

#include "gpurun/ops.cuh"

namespace gpurun {

constexpr size_t kGuardBytes = 64 << 10;

/// One allocation of device memory, handed out from the bottom. Nothing is freed but by going back to a mark.
class Arena {
 public:
  /// Never holds more than `limit` bytes.
  explicit Arena(size_t limit) : limit_(limit) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Empties the arena and makes it hold `bytes` at least. Waits some seconds for memory that another process, such
  /// as a worker just ended, is giving back; throws Trouble when there is none or the limit is passed.
  void reserve(size_t bytes);
  /// 256-byte aligned; throws Trouble when the arena is full.
  void* take(size_t bytes);
  /// The same between two guards, the second of which begins at the last byte's neighbour.
  void* take_guarded(size_t bytes);
  size_t mark() const { return used_; }
  void rewind(size_t mark) { used_ = mark; }
  size_t bytes() const { return size_; }

  /// What take() and take_guarded() use up.
  static size_t taken(size_t bytes) { return (bytes + 255) / 256 * 256; }
  static size_t taken_guarded(size_t bytes) { return taken(bytes + kGuardBytes) + kGuardBytes; }

 private:
  char* base_ = nullptr;
  size_t size_ = 0, used_ = 0, limit_;
};

/// Something between guards.
struct Region {
  void* ptr;
  int64_t count;
  Elem elem;
};
struct Regions {
  int n;
  Region region[kMaxBuffers + 1];
};

/// An instance in the arena, with the workspace of the candidate that runs on it (null: none).
struct Placed {
  Instance in;
  void* workspace;
  size_t workspace_bytes;
};

/// The buffers of a problem without addresses. Throws Trouble where the op's table is wrong.
Instance lay_out(const OpModule&, const Shape&, Dtype);
/// Arena bytes of its buffers, guards included.
size_t buffer_bytes(const Instance&);
/// Gives all buffers their addresses.
void place_buffers(Arena&, Instance*);
/// All that lies between guards: buffers, then the workspace.
Regions guarded_regions(const Placed&);
/// The buffers of a role.
Regions regions_of(const Instance&, Role);

}  // namespace gpurun

// What the worker must know of an op to run a candidate of it: its buffers, how inputs are made, the fp64
// reference, the test of an output, and the launcher's C prototype. One file check_<problem>.cu per problem holds
// the table ops_<problem>[] of its ops; the build collects the files, so a new problem needs no registration.
// Definitions follow the ops' definitions. Reference kernels are ours and plain; `bench-worker --certify` holds them
// against C in double (cref_<problem>.c) at small shapes.
//
// CUDA C++17, only the runtime API. Functions that take a stream enqueue on it unless they say that they
// synchronise, and throw CudaError (error.cuh) when the runtime refuses something.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace gpurun {

enum Dtype { FP32, FP16, BF16, FP8, INT8, INT4, FP4, DTYPES };
enum class Role { input, output, inout, workspace };
enum Elem { E_F32, E_F16, E_BF16, E_E4M3, E_I8, E_U8, E_I32 };

/// Axis values in the op's order; unused ones are 0.
struct Shape {
  int64_t v[6];
};

struct Buffer {
  const char* name;
  Role role;
  Elem elem;
  int64_t count;  // elements
};

constexpr int kMaxBuffers = 14;

/// A problem instance in the arena: device pointers in the launcher's order.
struct Instance {
  Shape shape;
  Dtype dtype;
  int n;
  Buffer buffer[kMaxBuffers];
  void* ptr[kMaxBuffers];
};

struct Verdict {
  int reason;               // run_reason of protocol.h, 0 pass
  double max_abs, max_rel;  // -1: not known
  char text[128];           // where: buffer, index
};

/// F2B is nucleus_sample's sorted family.
enum Family { F1 = 1, F2 = 2, F3 = 3, F2B = 4 };
constexpr unsigned family_bit(Family f) { return 1u << f; }

/// Bytes of `scratch` that judge may use.
constexpr size_t kScratchBytes = 1 << 20;

/// One op. Members from `trials` on may be null.
struct OpModule {
  const char* name;
  /// Buffers in the launcher's order (inputs, outputs), without workspace; returns how many.
  int (*layout)(const Shape&, Dtype, Buffer* out);
  /// Or of family_bit() for the families that exist at this shape.
  unsigned (*families)(const Shape&, Dtype);
  /// Fills all inputs, and the initial contents of inout buffers. A function of (shape, dtype, family, seed) alone.
  /// Does not wait for the device: timed samples are enqueued whole.
  void (*fill)(const Instance&, Family, uint64_t seed, cudaStream_t);
  /// Bytes of the reference, `ref` below, with what scratch its computation wants.
  size_t (*reference_bytes)(const Shape&, Dtype);
  /// Computes the reference of the present inputs into `ref`. Comes after fill (and aim) and before the run, so inout
  /// buffers hold their initial contents.
  void (*reference)(const Instance&, void* ref, Family, uint64_t seed, cudaStream_t);
  /// Compares the outputs with `ref`; synchronises. Order of reasons: that of enum run_reason.
  Verdict (*judge)(const Instance&, const void* ref, Family, uint64_t seed, void* scratch, cudaStream_t);
  /// Calls the candidate's launcher with its true prototype and returns what it returns.
  cudaError_t (*call)(void* fn, const Instance&, void* workspace, size_t workspace_bytes, cudaStream_t);
  /// What <op>_workspace (null: the candidate has none) says for the shape, in bytes.
  size_t (*workspace)(void* fn_or_null, const Instance&);
  /// Up to two neighbouring shapes for the shape_specific test; returns how many are legal.
  int (*neighbours)(const Shape&, Dtype, Shape out[2]);

  /// Runs that a family takes at this shape, 1 … 16; null means 1. The k-th has trial_of(seed) == k.
  int (*trials)(const Shape&, Dtype, Family);
  /// Between fill and reference of a verified run, but not of a timed one: adjusts inputs (aimed random numbers).
  void (*aim)(const Instance&, void* ref, Family, uint64_t seed, cudaStream_t);

  /// For --certify. Or of 1 << Dtype.
  unsigned dtypes;
  /// Three small shapes, an odd one among them.
  void (*small)(Dtype, Shape out[3]);
  /// `host` holds host copies of all buffers, `ref` of what reference() wrote. Computes the same in plain C and
  /// returns the largest relative error (certify_error() of common.cuh), 0 where equality is demanded and found.
  double (*certify)(const Instance& host, const void* ref, Family, uint64_t seed);
  /// Writes the best possible outputs, from `ref`: --certify wants judge to pass them and to refuse damaged ones.
  void (*answer)(const Instance&, const void* ref, Family, uint64_t seed, cudaStream_t);
};

/// The trial within a family, 0 … 15: the lowest four bits of a seed.
__host__ __device__ constexpr int trial_of(uint64_t seed) { return (int)(seed & 15); }

/// Null for an unknown name.
const OpModule* find_op(const char* name);
/// The i-th op of all, or null: for --certify.
const OpModule* op_at(int i);

}  // namespace gpurun

// A thread per rotated pair: it forms the two dot products of length E that belong to columns i and i + D/2 of a head,
// in fp32, rotates them if the head is a query or key head, and stores both.
//! idea a thread per rotated pair
//! dtypes fp16 bf16
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;

//! param 64 128 256 512
constexpr int kThreads = 128;

//! kernel grid=cdiv(T*(H+2*HKV)*(D/2),kThreads) block=kThreads regs=40 read=T*(H+2*HKV)*D*E*2+T*(H+2*HKV)*D/32*E once=2*E*(T+(H+2*HKV)*D)+4*D*min(T,8192) write=2*T*(H+2*HKV)*D inflight=kThreads*12 ops=T*(H+2*HKV)*(D/2)*E*180 chain=E/16*LAT+E/4*60+2*LATL2
static __global__ void qkv_kernel(const elem* __restrict__ x, const elem* __restrict__ w, const int* __restrict__ pos,
                                  const float* __restrict__ table, elem* __restrict__ q, elem* __restrict__ k,
                                  elem* __restrict__ v, int T, int H, int HKV, int D, int E) {
  int half = D / 2, pairs = (H + 2 * HKV) * half;
  size_t id = (size_t)blockIdx.x * kThreads + threadIdx.x;
  if (id >= (size_t)T * pairs) return;
  int t = (int)(id / pairs), head = (int)(id % pairs) / half, i = (int)(id % half);
  const elem* xr = x + (size_t)t * E;
  const elem* lo = w + ((size_t)head * D + i) * E;
  //! fault pairing wrong when D >= 4: const elem* hi = w + ((size_t)head * D + (i ^ 1)) * E;
  //! fault row_pointer compile: const elem* hi = &lo + (size_t)half * E;
  //! says row_pointer: a value of type "const elem **" cannot be used to initialize an entity of type "const elem *"
  const elem* hi = lo + (size_t)half * E;
  float a = 0.f, b = 0.f;
  //! fault last_k wrong: for (int c = 0; c < E - 1; ++c) {
  for (int c = 0; c < E; ++c) {
    float xv = (float)xr[c];
    a += xv * (float)lo[c];
    b += xv * (float)hi[c];
  }
  //! fault rotate_v wrong: if (head < H + 2 * HKV) {
  //! fault keys_plain wrong: if (head < H) {
  if (head < H + HKV) {
    //! fault position wrong: const float* row = table + (size_t)t % 8192 * D;
    //! fault table_type compile: const float2* row = table + (size_t)pos[t] * D;
    //! says table_type: a value of type "const float *" cannot be used to initialize an entity of type "const float2 *"
    const float* row = table + (size_t)pos[t] * D;
    //! fault cosine_name compile: float c = row[i], s = row[half + i], r = a * cosine - b * s;
    //! says cosine_name: identifier "cosine" is undefined
    float c = row[i], s = row[half + i], r = a * c - b * s;
    b = b * c + a * s;
    a = r;
  }
  elem* out = head < H         ? q + ((size_t)t * H + head) * D
              : head < H + HKV ? k + ((size_t)t * HKV + head - H) * D
                               : v + ((size_t)t * HKV + head - H - HKV) * D;
  out[i] = (elem)a;
  out[half + i] = (elem)b;
}

extern "C" cudaError_t fused_qkv_rope(const elem* x, const elem* w, const int* pos, const float* table, elem* q,
                                      elem* k, elem* v, int T, int H, int HKV, int D, int E, void* workspace,
                                      size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (T < 1 || D % 16 || E % 8) return cudaErrorNotSupported;
  size_t pairs = (size_t)T * (H + 2 * HKV) * (D / 2);
  qkv_kernel<<<(unsigned)((pairs + kThreads - 1) / kThreads), kThreads, 0, stream>>>(x, w, pos, table, q, k, v, T, H,
                                                                                    HKV, D, E);
  return cudaGetLastError();
}

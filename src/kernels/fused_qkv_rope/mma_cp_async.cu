// Tensor cores through mma.sync: cp.async fills a ring of kStages swizzled tiles while ldmatrix feeds the fragments.
// A block's columns come from both halves of a head, so that a pair's two sums meet in one thread and the rotation is
// done in registers before the only store.
//! idea mma.sync tiles with a cp.async ring and the rotation in registers
//! dtypes fp16 bf16
//! needs cp_async
//! legal D % (2 * BP) == 0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! dtype bf16: using elem2 = __nv_bfloat162;
using elem2 = __half2;

//! param 32 64 128
constexpr int BM = 64;     // tokens per block
//! param 16 32 48 64
constexpr int BP = 32;    // column pairs per block
//! param 32 64
constexpr int BK = 64;    // values of k per stage
//! param 2 3 4 5
constexpr int kStages = 3;
//! param 1 2 4
constexpr int WM = 2;    // warps along the tokens; two along the columns
//! legal BM % (16 * WM) == 0
constexpr int kThreads = WM * 64;
constexpr int kTilesM = BM / WM / 16;  // 16-row tiles per warp
constexpr int kTilesP = BP / 2 / 8;        // 8-column tiles per warp and half
constexpr int kChunks = BK / 8;            // 16-byte chunks per tile row
constexpr int kTileRows = BM + 2 * BP;
constexpr int kSmem = kStages * kTileRows * BK * 2;

// Chunk c of row r: rows that share 128 bytes of banks differ in their chunk's place.
static __device__ __forceinline__ int place(int r, int c) {
  //! fault semicolon compile: return (r * kChunks + (c ^ (r / (64 / BK)) % kChunks)) * 16
  //! says semicolon+1: expected a ";"
  return (r * kChunks + (c ^ (r / (64 / BK)) % kChunks)) * 16;
}

static __device__ __forceinline__ void load4(uint32_t (&f)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col."
               //! dtype bf16: "f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               "f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

//! kernel grid=cdiv(T,BM)*(H+2*HKV)*(D/(2*BP)) block=64*WM smem=2*kStages*(BM+2*BP)*BK regs=45+BM*BP/WM/23 read=E*cdiv(T,BM)*(H+2*HKV)*D/BP*(BM+2*BP) once=2*E*(T+(H+2*HKV)*D) write=2*T*(H+2*HKV)*D inflight=kStages*(BM+2*BP)*BK ops=cdiv(T,BM)*(H+2*HKV)*D*E*(BM+2*BP+BM*BP/12)/(4*BP) tc16=2*cdiv(T,BM)*BM*(H+2*HKV)*D*E eff=min(arch==90?60:90,25+BM/(2*WM)+BP/2) chain=LAT+E/BK*60+E*(2+BM*BP/WM/128)
static __global__ __launch_bounds__(kThreads) void qkv_kernel(const elem* __restrict__ x, const elem* __restrict__ w,
                                                              const int* __restrict__ pos,
                                                              const float* __restrict__ table, elem* __restrict__ q,
                                                              elem* __restrict__ k, elem* __restrict__ v, int T, int H,
                                                              int HKV, int D, int E) {
  extern __shared__ __align__(128) uint8_t smem[];
  uint32_t ring = (uint32_t)__cvta_generic_to_shared(smem);
  int half = D / 2, parts = half / BP;
  int head = blockIdx.y / parts, i0 = blockIdx.y % parts * BP, t0 = blockIdx.x * BM;
  int lane = threadIdx.x % 32, wm = threadIdx.x / 32 / 2, wn = threadIdx.x / 32 % 2;
  int steps = (E + BK - 1) / BK;

  auto issue = [&](int step) {
    if (step < steps) {
      uint32_t stage = ring + step % kStages * (kTileRows * BK * 2);
      for (int j = threadIdx.x; j < kTileRows * kChunks; j += kThreads) {
        int r = j / kChunks, c = j % kChunks, at = step * BK + c * 8, n = r - BM;
        size_t row = r < BM ? min(t0 + r, T - 1)
                     //! fault pairing wrong when D > 2 * BP: : (size_t)head * D + 2 * i0 + n;
                               : (size_t)head * D + i0 + (n < BP ? n : n - BP + half);
        // Past the end of k the copy fills zeros; rows past T are not stored.
        //! fault tail_k wrong when E % BK != 0: int bytes = (step + 1) * BK <= E ? 16 : 0;
        int bytes = at < E ? 16 : 0;
        const elem* from = (r < BM ? x : w) + row * E + (at < E ? at : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(stage + place(r, c)), "l"(from), "r"(bytes)
                     : "memory");
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float acc[kTilesM][kTilesP][2][4] = {};  // [..][half of the head][fragment]
  for (int s = 0; s < kStages - 1; ++s) issue(s);
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    issue(step + kStages - 1);
    uint32_t stage = ring + step % kStages * (kTileRows * BK * 2);
#pragma unroll
    for (int kk = 0; kk < kChunks; kk += 2) {
      uint32_t a[kTilesM][4];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        load4(a[i], stage + place((wm * kTilesM + i) * 16 + lane % 16, kk + lane / 16));
#pragma unroll
      for (int j = 0; j < kTilesP; ++j) {
        // One ldmatrix: an 8-column tile of the low half and its partner of the high half.
        uint32_t b[4];
        int n = lane / 16 * BP + (wn * kTilesP + j) * 8 + lane % 8;
        //! fault stage_type compile: load4(b, smem + place(BM + n, kk + lane / 8 % 2));
        //! says stage_type: argument of type "uint8_t *" (aka "unsigned char *") is incompatible with parameter of type "uint32_t" (aka "unsigned int")
        load4(b, stage + place(BM + n, kk + lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          mma(acc[i][j][0], a[i], b[0], b[1]);
          //! fault half_operand wrong: mma(acc[i][j][1], a[i], b[2], b[1]);
          mma(acc[i][j][1], a[i], b[2], b[3]);
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      //! fault fragment_rows wrong when T >= 16: int t = t0 + (wm * kTilesM + i) * 16 + (1 - h) * 8 + lane / 4;
      int t = t0 + (wm * kTilesM + i) * 16 + h * 8 + lane / 4;
      if (t >= T) continue;
      elem* out = head < H ? q + ((size_t)t * H + head) * D : nullptr;
      if (head >= H) out = (head < H + HKV ? k : v) + ((size_t)t * HKV + (head - H) % HKV) * D;
      const float* row = table + (size_t)pos[t] * D;
#pragma unroll
      for (int j = 0; j < kTilesP; ++j) {
        int c = i0 + (wn * kTilesP + j) * 8 + lane % 4 * 2;
        float lo[2], hi[2];
        for (int b = 0; b < 2; ++b) {
          //! fault fragment_rank compile: float l = acc[i][j][0][h][b], u = acc[i][j][1][h * 2 + b];
          //! says fragment_rank: expression must have pointer-to-object type but it has type "float"
          float l = acc[i][j][0][h * 2 + b], u = acc[i][j][1][h * 2 + b];
          //! fault rotate_v wrong: bool rotate = head < H + 2 * HKV;
          bool rotate = head < H + HKV;
          float cosine = rotate ? row[c + b] : 1.f, sine = rotate ? row[half + c + b] : 0.f;
          lo[b] = l * cosine - u * sine;
          hi[b] = u * cosine + l * sine;
        }
        *reinterpret_cast<elem2*>(out + c) = elem2((elem)lo[0], (elem)lo[1]);
        *reinterpret_cast<elem2*>(out + half + c) = elem2((elem)hi[0], (elem)hi[1]);
      }
    }
  }
}

extern "C" cudaError_t fused_qkv_rope(const elem* x, const elem* w, const int* pos, const float* table, elem* q,
                                      elem* k, elem* v, int T, int H, int HKV, int D, int E, void* workspace,
                                      size_t workspace_bytes, cudaStream_t stream) {
  (void)workspace;
  (void)workspace_bytes;
  if (T < 1 || D % (2 * BP) || E % 8) return cudaErrorNotSupported;
  cudaError_t e = cudaFuncSetAttribute(qkv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem);
  if (e != cudaSuccess) return e;
  dim3 grid((T + BM - 1) / BM, (H + 2 * HKV) * (D / (2 * BP)));
  qkv_kernel<<<grid, kThreads, kSmem, stream>>>(x, w, pos, table, q, k, v, T, H, HKV, D, E);
  return cudaGetLastError();
}

// Selective state-space scan over time tiles in shared memory, double-buffered with one barrier per tile. Half of a
// block's warps do nothing but scan; while they do, the others prepare the next tile's delta and delta * u and finish
// the last one's outputs, so that the exponentials of the scan never pause for long. Lanes leave partial outputs in
// shared memory, four steps a store, instead of exchanging them. Few channels can have time cut into CHUNKS besides: a
// first launch finds the chunks' ends from zero states and the sums of delta.
//! idea double-buffered tiles that half of the warps scan while the others prepare and finish
//! says far_word: no suitable conversion function from "const Pair" to "unsigned int" exists
//! says fetch_args: function "lambda []()->void" cannot be called with the given argument list
//! says capture+1: an enclosing-function local variable cannot be referenced in a lambda body unless it is in the capture list
//! dtypes fp16 bf16
//! kernel grid=B*(D*LANES/THREADS)*max(1,min(CHUNKS,cdiv(L,TILE))-1) block=2*THREADS smem=16*TILE*(THREADS/LANES+N) regs=min(N>8*LANES&&THREADS<256?255:128,58+6*N/LANES) read=e*(2*B*L*D+B*L*N*(D*LANES/THREADS))*(CHUNKS-1)/CHUNKS+1 write=4*B*(CHUNKS-1)*D*(N+1) inflight=THREADS*TILE*4/LANES ops=B*L*D*(9*N/2+2*LANES+30)*(CHUNKS-1)/CHUNKS sfu=B*L*D*(N+1)*(CHUNKS-1)/CHUNKS chain=CHUNKS>1?LAT+cdiv(L,CHUNKS*TILE)*(TILE*(9*N/LANES+10)+200):0
//! kernel grid=B*(D*LANES/THREADS)*min(CHUNKS,cdiv(L,TILE)) block=2*THREADS smem=16*TILE*(THREADS/LANES+N)+8*TILE*THREADS regs=min(N>8*LANES&&THREADS<256?255:128,max(48+6*N/LANES,64+5*TILE/LANES)) read=e*(4*B*L*D+2*B*L*N*(D*LANES/THREADS))+2*B*D*(N+1)*CHUNKS*(CHUNKS-1)+4*B*D*N once=e*(3*B*L*D+2*B*L*N)+4*B*CHUNKS*D*(N+1) write=e*B*L*D+4*B*D*N inflight=THREADS*TILE*4/LANES ops=B*L*D*(11*N/2+2*LANES+45) sfu=B*L*D*(N+3) chain=LAT+cdiv(L,CHUNKS*TILE)*(TILE*(9*N/LANES+10)+200)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstddef>

//! dtype bf16: using elem = __nv_bfloat16;
using elem = __half;
//! param 64 128 256
constexpr int THREADS = 128;  // that scan, and as many that help
//! param 2 4 8 16
constexpr int LANES = 4;  // per channel
//! param 16 32 64
constexpr int TILE = 32;  // time steps
//! param 1 2 4 8 16
constexpr int CHUNKS = 1;  // of time, side by side
//! legal LANES<=N
//! legal TILE>=4*LANES&&TILE<=16*LANES
//! legal THREADS>=16*LANES
//! legal D%(THREADS/LANES)==0
constexpr int CHANNELS = THREADS / LANES, QUADS = TILE / 4;  // quads of time steps
constexpr float LOG2E = 1.4426950408889634f;

static __device__ __forceinline__ float ex2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

static __device__ __forceinline__ float rcp(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

// log(1 + e^v) is v, if positive, and log(1 + e) for e = e^-|v|: e times a polynomial, 1.3e-6 from it on [0, 1].
static __device__ __forceinline__ float softplus(float v) {
  float e = ex2(-LOG2E * fabsf(v)), p = fmaf(0.0141410241f, e, -0.0664018011f);
  p = fmaf(p, e, 0.149223876f);
  p = fmaf(p, e, -0.235038605f);
  p = fmaf(p, e, 0.33109449f);
  p = fmaf(p, e, -0.499869656f);
  p = fmaf(p, e, 0.999998732f);
//! fault positive_part wrong: return p * e;
  return fmaf(p, e, fmaxf(v, 0.f));
}

struct alignas(2 * sizeof(elem)) Pair {
  elem v[2];
};

template <int PAIRS>
struct alignas(PAIRS * sizeof(Pair)) Pairs {
  unsigned w[PAIRS];
  __device__ __forceinline__ float operator[](int j) const { return (float)((const Pair *)&w[j / 2])->v[j % 2]; }
  __device__ __forceinline__ void put(int j, float x, float y) {
    Pair p = {elem(x), elem(y)};
    w[j / 2] = *(const unsigned *)&p;
  }
};

// Where the quad of an index goes, so that every 2nd, 4th ... 32nd of them reach all banks just as 8 in a row do.
static __device__ __forceinline__ constexpr int spread(int i) { return i ^ ((i >> 3 ^ i >> 6) & 7); }

template <int N, bool OUTPUT>
static __global__ void __launch_bounds__(2 * THREADS, N / LANES > 8 ? 1 : 256 / THREADS)
    scan_kernel(const elem *__restrict__ u, const elem *__restrict__ dt, const elem *__restrict__ z,
                const float *__restrict__ A, const elem *__restrict__ Bm, const elem *__restrict__ Cm,
                const float *__restrict__ Dskip, const float *__restrict__ dt_bias, const float *__restrict__ h0,
                float *__restrict__ ends, float *__restrict__ sums, elem *__restrict__ y, float *__restrict__ h, int L,
                int D, int length, int chunks) {
  constexpr int K = N / LANES;                        // states of a lane
  constexpr bool HALF = OUTPUT || TILE == 4 * LANES;  // of the warps prepare, else all
  constexpr int WIDTH = TILE / ((HALF ? 2 : 4) * LANES), WORKERS = HALF ? THREADS / 2 : THREADS;  // WIDTH channels each
  constexpr int ITEMS = QUADS * N / 4, TURNS = ((1 + OUTPUT) * ITEMS + WORKERS - 1) / WORKERS;
  extern __shared__ float4 smem[];           // all in quads of time steps
  float4 *step = smem;                       // [2][2][QUADS][CHANNELS]: delta, delta * u
  float4 *bc = step + 4 * QUADS * CHANNELS;  // [2][2][QUADS][N]: B, C
  float4 *shares = bc + 4 * QUADS * N;       // [2][QUADS][THREADS]: the lanes' shares of o
  int d0 = blockIdx.x * CHANNELS, b = blockIdx.z, begin = blockIdx.y * length;
  // Lanes i and i ^ 1 read the same B and C, i and i ^ 2 the same delta: so paired, a 16-byte load takes half as long.
  int thread = threadIdx.x % THREADS, part = thread / 2 % LANES, c = thread / (2 * LANES) * 2 + thread % 2;
  int tiles = (min(L - begin, length) + TILE - 1) / TILE;
  size_t states = (size_t)D * N, own = (size_t)(d0 + c) * N;
  // States 0, 4, 8, ... come first in shared memory, then 1, 5, ...: so that who stores four of them has few conflicts.
  auto state = [=](int k) { return (k * LANES + part) % (N / 4) * 4 + (k * LANES + part) / (N / 4); };
  if (threadIdx.x < THREADS) {
    float a[K], s[K], total = 0.f;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      a[k] = A[own + state(k)] * LOG2E;
      s[k] = OUTPUT ? h0[b * states + own + state(k)] : 0.f;
    }
    if constexpr (OUTPUT) {
      size_t chunk = (size_t)b * chunks;  // the states at the start, from the ends of the chunks before
      for (int j = 0; j < (int)blockIdx.y; ++j, ++chunk) {
        float sum = sums[chunk * D + d0 + c];
#pragma unroll
//! fault carry_rate wrong when CHUNKS>1&&L>TILE&&cdiv(L,CHUNKS)<=512: for (int k = 0; k < K; ++k) s[k] = fmaf(ex2(-sum), s[k], ends[chunk * states + own + state(k)]);
        for (int k = 0; k < K; ++k) s[k] = fmaf(ex2(a[k] * sum), s[k], ends[chunk * states + own + state(k)]);
      }
    }
    __syncthreads();
    for (int i = 0; i < tiles; ++i) {
      const float4 *st = step + i % 2 * 2 * QUADS * CHANNELS + spread(c);
      const float4 *vectors = bc + i % 2 * 2 * QUADS * N + part;
      float4 *to = shares + i % 2 * QUADS * THREADS + spread(thread);
      float4 next = st[0];
#pragma unroll 2
      for (int q = 0; q < QUADS; ++q) {
        float4 de = next, dx = st[(q + QUADS) * CHANNELS], o = {0.f, 0.f, 0.f, 0.f};
        next = st[(q + 1) * CHANNELS];  // the exponentials of a quad begin without waiting for shared memory
#pragma unroll
        for (int k = 0; k < K; ++k) {
          float4 vb = vectors[q * N + k * LANES], vc = vb;
          if constexpr (OUTPUT) vc = vectors[(q + QUADS) * N + k * LANES];
          auto advance = [&](float de, float dx, float vb, float vc, float &o) {
            s[k] = fmaf(ex2(de * a[k]), s[k], dx * vb);
            if constexpr (OUTPUT) o = fmaf(s[k], vc, o);
          };
          advance(de.x, dx.x, vb.x, vc.x, o.x);
          advance(de.y, dx.y, vb.y, vc.y, o.y);
          advance(de.z, dx.z, vb.z, vc.z, o.z);
          advance(de.w, dx.w, vb.w, vc.w, o.w);
        }
        if constexpr (OUTPUT) to[q * THREADS] = o;
//! fault total_short wrong when CHUNKS>1&&L>TILE&&cdiv(L,CHUNKS)<=512: if constexpr (!OUTPUT) total += de.x + de.y;
        if constexpr (!OUTPUT) total += (de.x + de.y) + (de.z + de.w);
      }
      __syncthreads();
    }
    if constexpr (OUTPUT) {
//! fault first_h wrong when CHUNKS>1&&L>TILE: if (blockIdx.y > 0) return;
      if (blockIdx.y + 1 < chunks) return;
#pragma unroll
      for (int k = 0; k < K; ++k) h[b * states + own + state(k)] = s[k];
    } else {
      size_t chunk = (size_t)b * chunks + blockIdx.y;
#pragma unroll
      for (int k = 0; k < K; ++k) ends[chunk * states + own + state(k)] = s[k];
      if (part == 0) sums[chunk * D + d0 + c] = total;
    }
    return;
  }

  // Of each pair of helping warps one prepares, the other finishes outputs. Without output all prepare.
  bool prepares = !HALF || !((thread >> 5 ^ thread >> 7) & 1);
  int id = HALF ? thread / 64 * 32 + thread % 32 : thread;
  int group = id % (CHANNELS / WIDTH) * WIDTH, quad = id / (CHANNELS / WIDTH);
  size_t at = ((size_t)b * L + begin + quad * 4) * D + d0 + group, stride = D;
  const elem *from_u = u + at, *from_other = (prepares ? dt : z) + at, *from[TURNS];  // what this thread reads next
  elem *to_y = y + at;
  int left = L - begin - quad * 4;  // steps from there to the end
  float per_channel[WIDTH];
#pragma unroll
//! fault bias_skip wrong: for (int j = 0; j < WIDTH; ++j) per_channel[j] = (prepares ? Dskip : dt_bias)[d0 + group + j];
  for (int j = 0; j < WIDTH; ++j) per_channel[j] = (prepares ? dt_bias : Dskip)[d0 + group + j];
  const Pair far = {elem(-3e4f), elem(-3e4f)};  // as dt it makes delta 0, which keeps the states: so past the end
  Pairs<WIDTH / 2> ru[4], ro[4];
  Pairs<2> rs[TURNS][4];
  auto fetch = [&] {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
#pragma unroll
//! fault far_word compile: for (int w = 0; w < WIDTH / 2; ++w) ru[t].w[w] = 0, ro[t].w[w] = far;
      for (int w = 0; w < WIDTH / 2; ++w) ru[t].w[w] = 0, ro[t].w[w] = *(const unsigned *)&far;
      if (t < left) {
        ru[t] = *(const Pairs<WIDTH / 2> *)(from_u + t * stride);
        ro[t] = *(const Pairs<WIDTH / 2> *)(from_other + t * stride);
      }
    }
    from_u += TILE * stride;
    from_other += TILE * stride;
    left -= TILE;
  };
  int vleft[TURNS];
#pragma unroll
  for (int r = 0; r < TURNS; ++r) {
    int q = id + r * WORKERS, l = q % ITEMS / (N / 4) * 4;
    vleft[r] = q < (1 + OUTPUT) * ITEMS ? L - begin - l : 0;
//! fault vectors_swapped wrong: from[r] = (q < ITEMS ? Cm : Bm) + ((size_t)b * L + begin + l) * N + q % (N / 4) * 4;
    from[r] = (q < ITEMS ? Bm : Cm) + ((size_t)b * L + begin + l) * N + q % (N / 4) * 4;
  }
  auto fetch_vectors = [&] {
#pragma unroll
    for (int r = 0; r < TURNS; ++r) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        rs[r][t] = {0, 0};
        if (t < vleft[r]) rs[r][t] = *(const Pairs<2> *)(from[r] + t * N);
      }
      from[r] += TILE * N;
      vleft[r] -= TILE;
    }
  };
  auto prepare = [&](int i) {
    float4 *to = step + i % 2 * 2 * QUADS * CHANNELS + quad * CHANNELS, *tb = bc + i % 2 * 2 * QUADS * N;
#pragma unroll
    for (int r = 0; r < TURNS; ++r) {
      int q = id + r * WORKERS;
      if (q < (1 + OUTPUT) * ITEMS)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          tb[q / (N / 4) * N + j * (N / 4) + q % (N / 4)] =
              make_float4(rs[r][0][j], rs[r][1][j], rs[r][2][j], rs[r][3][j]);
    }
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
      float de[4], dx[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        de[t] = softplus(ro[t][j] + per_channel[j]);
        dx[t] = de[t] * ru[t][j];
      }
      int where = spread(group + j);
      to[where] = make_float4(de[0], de[1], de[2], de[3]);
      to[where + QUADS * CHANNELS] = make_float4(dx[0], dx[1], dx[2], dx[3]);
    }
  };
//! fault capture compile: auto finish = [](int i) {
  auto finish = [&](int i) {
    int mine = ((i % 2 * QUADS + quad) * THREADS + spread(group * LANES)) * 16;  // bytes
    Pairs<WIDTH / 2> out[4];
#pragma unroll
    for (int j = 0; j < WIDTH; j += 2) {
      float o[2][4];
#pragma unroll
      for (int e = 0; e < 2; ++e)
#pragma unroll
//! fault lane_left wrong: for (int p = 0; p < LANES - 1; ++p) {
        for (int p = 0; p < LANES; ++p) {
          float4 v = *(const float4 *)((const char *)shares + (mine ^ 16 * spread(j * LANES + p * 2 + e)));
          o[e][0] = p ? o[e][0] + v.x : v.x, o[e][1] = p ? o[e][1] + v.y : v.y;
          o[e][2] = p ? o[e][2] + v.z : v.z, o[e][3] = p ? o[e][3] + v.w : v.w;
        }
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        float g0 = ro[t][j], g1 = ro[t][j + 1];
        out[t].put(j, fmaf(per_channel[j], ru[t][j], o[0][t]) * g0 * rcp(1.f + ex2(-LOG2E * g0)),
                   fmaf(per_channel[j + 1], ru[t][j + 1], o[1][t]) * g1 * rcp(1.f + ex2(-LOG2E * g1)));
      }
    }
#pragma unroll
    for (int t = 0; t < 4; ++t)
      if (t < left + TILE) *(Pairs<WIDTH / 2> *)(to_y + t * stride) = out[t];
    to_y += TILE * stride;
  };

  if (prepares) {
    fetch();
    fetch_vectors();
  }
  for (int i = -1; i <= tiles; ++i) {
    if (prepares) {
      if (i + 1 < tiles) {
        prepare(i + 1);
//! fault fetch_args compile: fetch_vectors(i + 1);
        fetch_vectors();
        fetch();
      }
    } else if (OUTPUT) {
      if (i > 0) finish(i - 1);
      if (i >= 0) fetch();
    }
    if (i < tiles) __syncthreads();
  }
}

static int chunk_length(int L) { return ((L + CHUNKS - 1) / CHUNKS + TILE - 1) / TILE * TILE; }

static int chunk_count(int L) { return (L + chunk_length(L) - 1) / chunk_length(L); }

extern "C" size_t mamba_scan_workspace(int B, int L, int D, int N) {
  return chunk_count(L) > 1 ? (size_t)B * chunk_count(L) * D * (N + 1) * sizeof(float) : 0;
}

template <int N>
static cudaError_t launch(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm, const elem *Cm,
                          const float *Dskip, const float *dt_bias, const float *h0, float *ends, elem *y, float *h,
                          int B, int L, int D, cudaStream_t stream) {
  if constexpr (LANES > N) {
    return cudaErrorNotSupported;
  } else {
    int chunks = chunk_count(L), length = chunk_length(L);
    float *sums = ends + (size_t)B * chunks * D * N;
    size_t inputs = 16 * TILE * CHANNELS + 16 * TILE * N, smem = inputs + 8 * TILE * THREADS;
    auto ends_kernel = scan_kernel<N, false>, kernel = scan_kernel<N, true>;
    cudaError_t e = cudaFuncSetAttribute(ends_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)inputs);
    if (e != cudaSuccess) return e;
    e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    if (e != cudaSuccess) return e;
    if (chunks > 1)
      ends_kernel<<<dim3(D / CHANNELS, chunks - 1, B), 2 * THREADS, inputs, stream>>>(
          u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, ends, sums, y, h, L, D, length, chunks);
    kernel<<<dim3(D / CHANNELS, chunks, B), 2 * THREADS, smem, stream>>>(
        u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, ends, sums, y, h, L, D, length, chunks);
    return cudaGetLastError();
  }
}

extern "C" cudaError_t mamba_scan(const elem *u, const elem *dt, const elem *z, const float *A, const elem *Bm,
                                  const elem *Cm, const float *Dskip, const float *dt_bias, const float *h0, elem *y,
                                  float *h, int B, int L, int D, int N, void *workspace, size_t workspace_bytes,
                                  cudaStream_t stream) {
  if (B < 1 || B > 65535 || L < 1 || D < 1 || D % 64 != 0) return cudaErrorNotSupported;
  if (D > 1 << 24 || D % CHANNELS != 0) return cudaErrorNotSupported;
  auto go = N == 8 ? launch<8> : N == 16 ? launch<16> : N == 32 ? launch<32> : launch<64>;
  if (N != 8 && N != 16 && N != 32 && N != 64) return cudaErrorNotSupported;
  if (workspace_bytes < mamba_scan_workspace(B, L, D, N)) return cudaErrorInvalidValue;
  return go(u, dt, z, A, Bm, Cm, Dskip, dt_bias, h0, (float *)workspace, y, h, B, L, D, stream);
}

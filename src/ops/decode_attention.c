/*
 * decode_attention.c - one new token attends to a cache of S keys:
 * flash_decode, its Triton twin, and swa_decode with a sliding window.
 */
#include "op.h"

#include <stddef.h>

enum { B, H, HKV, S, D };                 /* flash_decode, triton */
enum { SWA_S = 3, SWA_W = 4, SWA_D = 5 }; /* swa_decode: B H HKV S W D */

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* The first ten are those that verification uses, the rest models times batch and
 * length; the comment names the model whose heads they are. */
static const int64_t flash_shapes[][OP_MAX_AXES] = {
	{ 1, 32, 8, 4096, 128 },   /* Llama-3-8B */
	{ 8, 64, 8, 16384, 128 },  /* Llama-3-70B */
	{ 64, 32, 8, 2048, 128 },  /* Llama-3-8B */
	{ 1, 32, 8, 32768, 128 },  /* Llama-3-8B */
	{ 16, 28, 4, 1000, 128 },  /* Qwen2.5-7B, odd S */
	{ 4, 32, 32, 513, 96 },    /* Phi-3-mini, a KV head per head */
	{ 2, 16, 8, 8191, 256 },   /* Gemma-2-9B */
	{ 32, 64, 8, 4097, 64 },   /* GPT-OSS-20B */
	{ 1, 71, 1, 2047, 64 },    /* Falcon-7B, one KV head */
	{ 3, 4, 2, 1, 64 },        /* tiny */
	{ 4, 32, 8, 8191, 128 },   /* Llama-3-8B */
	{ 16, 32, 8, 16384, 128 }, /* Mistral-7B */
	{ 128, 32, 8, 1024, 128 }, /* Mixtral-8x7B */
	{ 256, 32, 8, 129, 128 },  /* Llama-3-8B */
	{ 2, 64, 8, 32768, 128 },  /* Llama-3-70B */
	{ 32, 64, 8, 1000, 128 },  /* Qwen3-32B */
	{ 1, 128, 8, 16384, 128 }, /* Llama-3.1-405B */
	{ 16, 128, 8, 4096, 128 }, /* Llama-3.1-405B */
	{ 8, 40, 40, 1024, 128 },  /* Llama-2-13B */
	{ 1, 40, 40, 4097, 128 },  /* Llama-2-13B */
	{ 8, 32, 4, 2048, 64 },    /* TinyLlama-1.1B */
	{ 64, 32, 4, 513, 64 },    /* TinyLlama-1.1B */
	{ 2, 14, 2, 4096, 64 },    /* Qwen2.5-0.5B */
	{ 128, 14, 2, 2048, 64 },  /* Qwen2.5-0.5B */
	{ 1, 28, 4, 32768, 128 },  /* Qwen2.5-7B */
	{ 8, 32, 4, 8191, 128 },   /* Qwen3-30B-A3B */
	{ 16, 16, 8, 4096, 256 },  /* Gemma-2-9B */
	{ 1, 16, 8, 1000, 256 },   /* Gemma-2-9B */
	{ 16, 32, 32, 2048, 96 },  /* Phi-3-mini */
	{ 1, 32, 32, 4096, 96 },   /* Phi-3-mini */
	{ 4, 32, 32, 1024, 80 },   /* Phi-2 */
	{ 1, 64, 8, 8191, 64 },    /* GPT-OSS-20B */
	{ 16, 71, 1, 4096, 64 },   /* Falcon-7B */
};

static const int64_t swa_shapes[][OP_MAX_AXES] = {
	{ 1, 32, 8, 4096, 1024, 128 },   /* Llama-3-8B's heads */
	{ 8, 32, 8, 32768, 4096, 128 },  /* Mistral-7B */
	{ 32, 16, 8, 8192, 4096, 256 },  /* Gemma-2-9B */
	{ 64, 64, 8, 4096, 128, 64 },    /* GPT-OSS-20B */
	{ 8, 64, 8, 16384, 1024, 128 },  /* Llama-3-70B's heads */
	{ 4, 32, 8, 5000, 1023, 128 },   /* odd S and W */
	{ 2, 4, 2, 100, 128, 64 },       /* a window longer than the cache */
	{ 1, 32, 8, 32768, 4096, 128 },  /* Mistral-7B */
	{ 64, 32, 8, 8191, 4096, 128 },  /* Mistral-7B */
	{ 16, 32, 8, 4097, 4096, 128 },  /* Mistral-7B, one key outside */
	{ 128, 32, 8, 1000, 4096, 128 }, /* Mistral-7B, all keys inside */
	{ 1, 16, 8, 8191, 4096, 256 },   /* Gemma-2-9B */
	{ 4, 16, 8, 16384, 4096, 256 },  /* Gemma-2-9B */
	{ 16, 16, 8, 2048, 4096, 256 },  /* Gemma-2-9B, all keys inside */
	{ 1, 64, 8, 8191, 128, 64 },     /* GPT-OSS-20B */
	{ 8, 64, 8, 32768, 128, 64 },    /* GPT-OSS-20B */
	{ 256, 64, 8, 1000, 128, 64 },   /* GPT-OSS-20B */
	{ 32, 64, 8, 129, 128, 64 },     /* GPT-OSS-20B, one key outside */
	{ 2, 28, 4, 16384, 4096, 128 },  /* Qwen2.5-7B's heads */
	{ 32, 28, 4, 4096, 1000, 128 },  /* Qwen2.5-7B's heads */
	{ 8, 32, 4, 8191, 2047, 128 },   /* Qwen3-30B-A3B's heads */
	{ 16, 32, 32, 4096, 2047, 96 },  /* Phi-3-mini */
	{ 1, 32, 32, 8191, 2047, 96 },   /* Phi-3-mini */
	{ 4, 32, 32, 2048, 513, 80 },    /* Phi-2's heads */
	{ 64, 32, 4, 2048, 512, 64 },    /* TinyLlama-1.1B's heads */
	{ 16, 14, 2, 32768, 4096, 64 },  /* Qwen2.5-0.5B's heads */
	{ 1, 128, 8, 16384, 8191, 128 }, /* Llama-3.1-405B's heads */
	{ 1, 71, 1, 4096, 1024, 64 },    /* Falcon-7B's heads */
};

#define ATTENTION                                                         \
	"Every sequence b has one new token. Query head h reads KV head " \
	"g = h / (H / HKV) (integer division; H is a multiple of HKV). "

static const char flash_statement[] =
	"Decode attention over a contiguous KV cache, grouped queries.\n"
	"q is [B,H,D], k and v are [B,HKV,S,D], o is [B,H,D]; all dense, "
	"row-major, 256-byte aligned. " ATTENTION "With j = 0 ... S-1:\n"
	"  s_j = (sum_d q[b,h,d] * k[b,g,j,d]) / sqrt(D)\n"
	"  p = softmax(s)  (natural exponent, over all S keys)\n"
	"  o[b,h,d] = sum_j p_j * v[b,g,j,d]\n"
	"fp16, bf16: all four tensors have that type. fp8: q and o are fp16, "
	"k and v are e4m3, s_j is also multiplied by kscale and o by vscale "
	"(powers of two). Accumulate in fp32 and round once to the output "
	"type; p may be rounded to the type of q for the tensor cores, to "
	"nothing narrower. Scores may exceed 88, so the maximum has to be "
	"subtracted. No mask, no log-sum-exp output. "
	"D is one of 64, 80, 96, 128, 256; S >= 1, S need be no multiple of "
	"anything; H/HKV <= 128. Every element of o is written. Workspace is "
	"zero before the first call at a shape; later calls find what the "
	"last one left.";

static const char triton_statement[] =
	"Decode attention over a contiguous KV cache, grouped queries, as a "
	"Triton module.\n"
	"q is [B,H,D], k and v are [B,HKV,S,D], o is [B,H,D]; all dense, "
	"row-major, of one type, fp16 or bf16. " ATTENTION "With j = 0 ... S-1:\n"
	"  s_j = (sum_d q[b,h,d] * k[b,g,j,d]) / sqrt(D)\n"
	"  p = softmax(s)  (natural exponent, over all S keys)\n"
	"  o[b,h,d] = sum_j p_j * v[b,g,j,d]\n"
	"Accumulate in fp32 and round once to the output type; p may be "
	"rounded to the type of q for tl.dot, to nothing narrower. Scores may "
	"exceed 88, so the maximum has to be subtracted. "
	"D is one of 64, 80, 96, 128, 256 (80 and 96 are no powers of two); "
	"S >= 1, S need be no multiple of anything; H/HKV <= 128. Every "
	"element of o is written. launch writes into o and returns 0, or 801 "
	"before it has launched anything when the axes are not supported, or "
	"1 when the workspace is too small. workspace is a one-dimensional "
	"uint8 tensor of workspace_bytes elements (the size that "
	"triton_flash_decode_workspace(B, H, HKV, S, D) asks for, 0 without "
	"that function), zero before the first call at a shape; later calls "
	"find what the last one left.";

static const char swa_statement[] =
	"Decode attention over the newest W keys of a contiguous KV cache "
	"(sliding window), grouped queries.\n"
	"q is [B,H,D], k and v are [B,HKV,S,D], o is [B,H,D]; all dense, "
	"row-major, 256-byte aligned, of one type, fp16 or bf16. " ATTENTION
	"With j = max(0, S-W) ... S-1 (the newest W keys, the new token's own "
	"included):\n"
	"  s_j = (sum_d q[b,h,d] * k[b,g,j,d]) / sqrt(D)\n"
	"  p = softmax(s)  (natural exponent, over these keys only)\n"
	"  o[b,h,d] = sum_j p_j * v[b,g,j,d]\n"
	"The cache is full length. Keys outside the window hold finite values "
	"and must not influence the result; W may exceed S. No attention "
	"sinks. Accumulate in fp32 and round once to the output type; p may "
	"be rounded to the type of q for the tensor cores, to nothing "
	"narrower. Scores may exceed 88, so the maximum has to be subtracted. "
	"D is one of 64, 80, 96, 128, 256; S >= 1, W >= 1, neither need be a "
	"multiple of anything; H/HKV <= 128. Every element of o is written. "
	"Workspace is zero before the first call at a shape; later calls find "
	"what the last one left.";

static const char *flash_signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	switch (dtype) {
	case DT_FP8:
		return "extern \"C\" cudaError_t flash_decode("
		       "const __half *q, const __nv_fp8_e4m3 *k, "
		       "const __nv_fp8_e4m3 *v, __half *o, int B, int H, int HKV, "
		       "int S, int D, float kscale, float vscale, "
		       "void *workspace, size_t workspace_bytes, "
		       "cudaStream_t stream)";
	case DT_BF16:
		return "extern \"C\" cudaError_t flash_decode("
		       "const __nv_bfloat16 *q, const __nv_bfloat16 *k, "
		       "const __nv_bfloat16 *v, __nv_bfloat16 *o, int B, int H, "
		       "int HKV, int S, int D, void *workspace, "
		       "size_t workspace_bytes, cudaStream_t stream)";
	default:
		return "extern \"C\" cudaError_t flash_decode("
		       "const __half *q, const __half *k, const __half *v, "
		       "__half *o, int B, int H, int HKV, int S, int D, "
		       "void *workspace, size_t workspace_bytes, "
		       "cudaStream_t stream)";
	}
}

static const char *triton_signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	(void)dtype;
	return "def launch(q, k, v, o, B, H, HKV, S, D, workspace, "
	       "workspace_bytes)";
}

static const char *swa_signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t swa_decode("
		       "const __nv_bfloat16 *q, const __nv_bfloat16 *k, "
		       "const __nv_bfloat16 *v, __nv_bfloat16 *o, int B, int H, "
		       "int HKV, int S, int W, int D, void *workspace, "
		       "size_t workspace_bytes, cudaStream_t stream)";
	return "extern \"C\" cudaError_t swa_decode("
	       "const __half *q, const __half *k, const __half *v, __half *o, "
	       "int B, int H, int HKV, int S, int W, int D, void *workspace, "
	       "size_t workspace_bytes, cudaStream_t stream)";
}

/* q and o stay 16 bits wide when the cache is fp8. */
static int64_t query_bytes(int64_t rows, int64_t d)
{
	return 2 * rows * d;
}

static int64_t cache_bytes(const int64_t *v, int64_t keys, int64_t d, enum dtype dtype)
{
	return 2 * dtype_bytes(dtype) * v[B] * v[HKV] * keys * d;
}

static int64_t flash_bytes(const int64_t *v, enum dtype dtype)
{
	return 2 * query_bytes(v[B] * v[H], v[D]) + cache_bytes(v, v[S], v[D], dtype);
}

static int64_t flash_bytes_out(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return query_bytes(v[B] * v[H], v[D]);
}

static int64_t flash_flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 4 * v[B] * v[H] * v[S] * v[D];
}

static int64_t window(const int64_t *v)
{
	return v[SWA_W] < v[SWA_S] ? v[SWA_W] : v[SWA_S];
}

static int64_t swa_bytes(const int64_t *v, enum dtype dtype)
{
	return 2 * query_bytes(v[B] * v[H], v[SWA_D]) + cache_bytes(v, window(v), v[SWA_D], dtype);
}

static int64_t swa_bytes_out(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return query_bytes(v[B] * v[H], v[SWA_D]);
}

static int64_t swa_flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 4 * v[B] * v[H] * window(v) * v[SWA_D];
}

/* The whole cache lies in memory, although a window of it is read. */
static int64_t swa_footprint(const int64_t *v, enum dtype dtype)
{
	return 2 * query_bytes(v[B] * v[H], v[SWA_D]) + cache_bytes(v, v[SWA_S], v[SWA_D], dtype);
}

static const char *heads_illegal(int64_t h, int64_t hkv, int64_t d)
{
	if (h % hkv != 0)
		return "H is no multiple of HKV";
	if (h / hkv > 128)
		return "H / HKV exceeds 128";
	if (d != 64 && d != 80 && d != 96 && d != 128 && d != 256)
		return "D is none of 64, 80, 96, 128, 256";
	return NULL;
}

static const char *flash_illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return heads_illegal(v[H], v[HKV], v[D]);
}

static const char *swa_illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return heads_illegal(v[H], v[HKV], v[SWA_D]);
}

const struct op ops_decode_attention[] = {
	{
		.name = "flash_decode",
		.problem = "decode_attention",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16, DT_FP8 },
		.n_dtypes = 3,
		.axes = { "B", "H", "HKV", "S", "D" },
		.n_axes = 5,
		.shapes = flash_shapes,
		.n_shapes = COUNT(flash_shapes),
		.statement = flash_statement,
		.signature = flash_signature,
		.tol_element = 3,
		.tol_norm = 1,
		.bytes = flash_bytes,
		.bytes_out = flash_bytes_out,
		.flops = flash_flops,
		.pipe = PIPE_TENSOR16,
		.footprint = flash_bytes,
		.illegal = flash_illegal,
	},
	{
		.name = "swa_decode",
		.problem = "decode_attention",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "B", "H", "HKV", "S", "W", "D" },
		.n_axes = 6,
		.shapes = swa_shapes,
		.n_shapes = COUNT(swa_shapes),
		.statement = swa_statement,
		.signature = swa_signature,
		.tol_element = 3,
		.tol_norm = 1,
		.bytes = swa_bytes,
		.bytes_out = swa_bytes_out,
		.flops = swa_flops,
		.pipe = PIPE_TENSOR16,
		.footprint = swa_footprint,
		.illegal = swa_illegal,
	},
	{
		.name = "triton_flash_decode",
		.problem = "decode_attention",
		.impls = 1u << IMPL_TRITON,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "B", "H", "HKV", "S", "D" },
		.n_axes = 5,
		.shapes = flash_shapes,
		.n_shapes = COUNT(flash_shapes),
		.statement = triton_statement,
		.signature = triton_signature,
		.tol_element = 3,
		.tol_norm = 1,
		.bytes = flash_bytes,
		.bytes_out = flash_bytes_out,
		.flops = flash_flops,
		.pipe = PIPE_TENSOR16,
		.footprint = flash_bytes,
		.illegal = flash_illegal,
	},
	{ .name = NULL },
};

/*
 * swiglu.c - y = silu(gate) * up, the activation between the projections of a
 * gated MLP, as a CUDA and as a Triton kernel.
 */
#include <stddef.h>

#include "ops/op.h"

enum { T, I };

/* The first nine are those that verification uses; the rest are the
 * intermediate widths of models times tokens. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 14336 },                                        /* Llama-3-8B */
	{ 64, 14336 },    { 4096, 14336 }, { 16384, 11008 }, /* Llama-2-7B */
	{ 8192, 2048 },                                      /* DeepSeek-V3, an expert */
	{ 2048, 18944 },                                     /* Qwen2.5-7B */
	{ 1000, 2880 },                                      /* GPT-OSS-20B */
	{ 77, 1408 },                                        /* DeepSeek-V2-Lite, an expert */
	{ 65536, 4096 },  { 16, 14336 },                     /* Mistral-7B */
	{ 1024, 14336 },                                     /* Gemma-2-9B */
	{ 16384, 14336 },                                    /* Mixtral-8x7B */
	{ 1, 28672 },                                        /* Llama-3-70B */
	{ 128, 28672 },   { 8192, 28672 }, { 4, 53248 },     /* Llama-3.1-405B */
	{ 1024, 53248 },  { 8192, 53248 }, { 333, 13824 },   /* Llama-2-13B */
	{ 4096, 13824 },  { 64, 5632 },                      /* TinyLlama-1.1B */
	{ 16384, 5632 },  { 1, 4864 },                       /* Qwen2.5-0.5B */
	{ 512, 4864 },    { 65536, 4864 }, { 16, 18944 },    /* Qwen2.5-7B */
	{ 16384, 18944 }, { 1000, 768 },                     /* Qwen3-30B-A3B, an expert */
	{ 65536, 768 },   { 77, 25600 },                     /* Qwen3-32B */
	{ 2048, 25600 },  { 4096, 8192 },                    /* Phi-3-mini */
	{ 333, 2880 },                                       /* GPT-OSS-20B */
	{ 65536, 2880 },  { 1024, 18176 },                   /* Falcon-7B */
	{ 65536, 2048 },                                     /* DeepSeek-V3, an expert */
};

#define MATHEMATICS                                                                                                        \
	"SwiGLU activation. Input: x[T,2I]; columns 0 ... I-1 of a row are the gate, columns I ... 2I-1 are up. Output: "  \
	"y[T,I]. Both are dense, row-major, of one type, fp16 or bf16, aligned to 256 bytes, and do not overlap. "         \
	"For each t and i:\n"                                                                                              \
	"  g = x[t,i],  u = x[t,I + i]\n"                                                                                  \
	"  y[t,i] = g / (1 + exp(-g)) * u\n"                                                                               \
	"The arithmetic is in fp32 and y is rounded once, to nearest even. g may be large of either sign (100 and more): " \
	"the result then tends to g * u or to 0 and must not become NaN. This is silu, not a GELU, with factor 1 in the "  \
	"exponent. I is a multiple of 8, so each half of a row begins at a multiple of 16 bytes; I need be no power of "   \
	"two and T no multiple of anything. Every element of y is written. "

static const char statement[] = MATHEMATICS
	"Workspace is zero before the first call at a shape; later calls find what the last one left. A Triton module "
	"defines launch, which writes into y and returns 0, or 801 before it has launched anything when the axes are not "
	"supported; its workspace is a one-dimensional uint8 tensor of workspace_bytes elements, empty unless the module "
	"defines swiglu_act_workspace(T, I).";

static const char *signature(enum impl impl, enum dtype dtype)
{
	if (impl == IMPL_TRITON)
		return "def launch(x, y, T, I, workspace, workspace_bytes)";
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t swiglu_act(const __nv_bfloat16 *x, __nv_bfloat16 *y, int T, int I, "
		       "void *workspace, size_t workspace_bytes, cudaStream_t stream)";
	return "extern \"C\" cudaError_t swiglu_act(const __half *x, __half *y, int T, int I, void *workspace, "
	       "size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[T] * v[I];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	return 3 * bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 5 * v[T] * v[I];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[I] % 8 != 0)
		return "I is no multiple of 8";
	return NULL;
}

const struct op ops_swiglu[] = {
	{
		.name = "swiglu_act",
		.problem = "swiglu",
		.impls = 1u << IMPL_CUDA | 1u << IMPL_TRITON,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "T", "I" },
		.n_axes = 2,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 0.1,
		.tol_norm = 0.75,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_FP32,
		.footprint = bytes,
		.illegal = illegal,
	},
	{ .name = NULL },
};

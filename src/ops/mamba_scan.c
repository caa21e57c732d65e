/*
 * mamba_scan.c - Mamba-1 selective scan, forward, with state in and out.
 */
#include <stddef.h>

#include "ops/op.h"

enum { B, L, D, N };

/* The first eight are those that verification uses; the rest are the inner
 * dimensions of Mamba 130M, 1.4B, 2.8B and Falcon-Mamba-7B times tokens. */
static const int64_t shapes[][OP_MAX_AXES] = {
	{ 1, 1, 5120, 16 },     { 64, 1, 8192, 16 },    { 1, 2048, 8192, 16 },
	{ 8, 1024, 5120, 16 },  { 1, 16384, 1536, 16 }, { 4, 4096, 4096, 16 },
	{ 2, 1000, 3072, 16 },  { 1, 77, 2048, 16 },    { 1, 1, 1536, 16 },
	{ 16, 1, 4096, 16 },    { 256, 1, 5120, 16 },   { 128, 1, 1536, 16 },
	{ 1, 512, 5120, 16 },   { 1, 1024, 1536, 16 },  { 2, 333, 4096, 16 },
	{ 1, 4096, 8192, 16 },  { 8, 2048, 1536, 16 },  { 16, 512, 4096, 16 },
	{ 1, 8192, 5120, 16 },  { 2, 16384, 4096, 16 }, { 4, 2048, 8192, 16 },
	{ 32, 128, 5120, 16 },  { 8, 77, 8192, 16 },    { 1, 16384, 8192, 16 },
	{ 1, 65536, 1536, 16 }, { 4, 1000, 1536, 16 },  { 2, 4096, 5120, 32 },
	{ 1, 2048, 4096, 8 },   { 1, 1024, 2048, 64 },
};

static const char statement[] =
	"Selective state-space scan (Mamba-1), forward, with state in and out. Inputs: u[B,L,D], dt[B,L,D], z[B,L,D], "
	"Bm[B,L,N], Cm[B,L,N] in the element type; A[D,N] (negative), Dskip[D], dt_bias[D], h0[B,D,N] in fp32. Outputs: "
	"y[B,L,D] in the element type, h[B,D,N] in fp32. All row-major. For each sequence b, channel d and l = 0..L-1: "
	"v = dt[b,l,d] + dt_bias[d]; delta = softplus(v), that is v for v > 20, else log(1 + exp(v)); for each n: "
	"s[n] = exp(delta * A[d,n]) * s[n] + delta * u[b,l,d] * Bm[b,l,n], with s = h0[b,d,:] before the first step; "
	"o = sum over n of s[n] * Cm[b,l,n] + Dskip[d] * u[b,l,d]; y[b,l,d] = o * z / (1 + exp(-z)) with z = z[b,l,d]. "
	"h[b,d,:] is s after the last step. All arithmetic in fp32, y rounded once. L = 1 is the decode step. N is 8, 16, "
	"32 or 64 and D a multiple of 64. dt + dt_bias reaches from about -10 to 40. Errors of the decay add up over L: "
	"|error of h| <= 5e-4 * (|h| + rms of h over n) is asked for; y is judged by the tolerance given, per (b,l).";

static const char *signature(enum impl impl, enum dtype dtype)
{
	(void)impl;
	if (dtype == DT_BF16)
		return "extern \"C\" cudaError_t mamba_scan(const __nv_bfloat16 *u, const __nv_bfloat16 *dt, "
		       "const __nv_bfloat16 *z, const float *A, const __nv_bfloat16 *Bm, const __nv_bfloat16 *Cm, "
		       "const float *Dskip, const float *dt_bias, const float *h0, __nv_bfloat16 *y, float *h, int B, "
		       "int L, int D, int N, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
	return "extern \"C\" cudaError_t mamba_scan(const __half *u, const __half *dt, const __half *z, const float *A, "
	       "const __half *Bm, const __half *Cm, const float *Dskip, const float *dt_bias, const float *h0, __half *y, "
	       "float *h, int B, int L, int D, int N, void *workspace, size_t workspace_bytes, cudaStream_t stream)";
}

static int64_t bytes_out(const int64_t *v, enum dtype dtype)
{
	return dtype_bytes(dtype) * v[B] * v[L] * v[D] + 4 * v[B] * v[D] * v[N];
}

static int64_t bytes(const int64_t *v, enum dtype dtype)
{
	int64_t in = dtype_bytes(dtype) * v[B] * v[L] * (3 * v[D] + 2 * v[N]);

	return in + 4 * (v[D] * v[N] + 2 * v[D] + v[B] * v[D] * v[N]) + bytes_out(v, dtype);
}

static int64_t flops(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	return 9 * v[B] * v[L] * v[D] * v[N];
}

static const char *illegal(const int64_t *v, enum dtype dtype)
{
	(void)dtype;
	if (v[D] % 64)
		return "D is no multiple of 64";
	if (v[N] != 8 && v[N] != 16 && v[N] != 32 && v[N] != 64)
		return "N is not 8, 16, 32 or 64";
	return NULL;
}

const struct op ops_mamba_scan[] = {
	{
		.name = "mamba_scan",
		.problem = "mamba_scan",
		.impls = 1u << IMPL_CUDA,
		.dtypes = { DT_FP16, DT_BF16 },
		.n_dtypes = 2,
		.axes = { "B", "L", "D", "N" },
		.n_axes = 4,
		.shapes = shapes,
		.n_shapes = sizeof(shapes) / sizeof(shapes[0]),
		.statement = statement,
		.signature = signature,
		.tol_element = 2,
		.tol_norm = 1,
		.bytes = bytes,
		.bytes_out = bytes_out,
		.flops = flops,
		.pipe = PIPE_FP32,
		.footprint = bytes,
		.illegal = illegal,
	},
	{ .name = NULL },
};

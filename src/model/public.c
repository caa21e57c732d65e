/*
 * public.c - the table of public measurements, and the model's answers.
 */
#include "model/public.h"

#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "model/model.h"

enum { STREAM_WEIGHTS, DECODE, GEMM_PEAK, ELEMENTWISE, N_CLASSES };

static const char *const classes[N_CLASSES] = {
	[STREAM_WEIGHTS] = "weight streaming, M <= 8",
	[DECODE] = "decode attention, GQA 4",
	[GEMM_PEAK] = "large GEMM",
	[ELEMENTWISE] = "elementwise",
};

/* Time at a published rate of large products, in TFLOPS. */
#define GEMM_US(m, n, k, tflops) (2.0 * (m) * (n) * (k) / ((tflops)*1e6))
/* t = t0 + bytes / bandwidth (TB/s), the law fitted to 1280 GEMV points. */
#define WEIGHTS_US(n, k, t0, tbps) ((t0) + 2.0 * (n) * (k) / ((tbps)*1e6))
/* t = 2.0 us + bytes / 4.3 TB/s: quantising kernels on an H200. */
#define STREAM_US(bytes) (2.0 + (bytes) / 4.3e6)

static const struct public_point points[] = {
	/* Law of bf16 GEMV on H200 (4.7 us, 4.15 TB/s), H100 (4.5, 3.03), A100
	 * (8, 1.65). */
	{ STREAM_WEIGHTS,
	  "h200",
	  "gemm_fp16",
	  DT_FP16,
	  { 1, 4096, 4096 },
	  WEIGHTS_US(4096, 4096, 4.7, 4.15) },
	{ STREAM_WEIGHTS,
	  "h200",
	  "gemm_fp16",
	  DT_FP16,
	  { 1, 8192, 8192 },
	  WEIGHTS_US(8192, 8192, 4.7, 4.15) },
	{ STREAM_WEIGHTS,
	  "h200",
	  "gemm_fp16",
	  DT_FP16,
	  { 4, 28672, 8192 },
	  WEIGHTS_US(28672, 8192, 4.7, 4.15) },
	{ STREAM_WEIGHTS,
	  "h200",
	  "gemm_fp16",
	  DT_FP16,
	  { 1, 53248, 16384 },
	  WEIGHTS_US(53248, 16384, 4.7, 4.15) },
	{ STREAM_WEIGHTS,
	  "h100",
	  "gemm_fp16",
	  DT_FP16,
	  { 1, 4096, 4096 },
	  WEIGHTS_US(4096, 4096, 4.5, 3.03) },
	{ STREAM_WEIGHTS,
	  "h100",
	  "gemm_fp16",
	  DT_FP16,
	  { 1, 8192, 8192 },
	  WEIGHTS_US(8192, 8192, 4.5, 3.03) },
	{ STREAM_WEIGHTS,
	  "h100",
	  "gemm_fp16",
	  DT_FP16,
	  { 4, 28672, 8192 },
	  WEIGHTS_US(28672, 8192, 4.5, 3.03) },
	{ STREAM_WEIGHTS,
	  "a100",
	  "gemm_fp16",
	  DT_FP16,
	  { 1, 8192, 8192 },
	  WEIGHTS_US(8192, 8192, 8.0, 1.65) },
	{ STREAM_WEIGHTS,
	  "a100",
	  "gemm_fp16",
	  DT_FP16,
	  { 4, 28672, 8192 },
	  WEIGHTS_US(28672, 8192, 8.0, 1.65) },
	/* FA3 bf16, d 128, 8 kv heads, group 4, on H200: single points; long
	 * contexts at b 64 by their share of the DRAM peak. */
	{ DECODE, "h200", "flash_decode", DT_BF16, { 1, 32, 8, 16384, 128 }, 28.2 },
	{ DECODE, "h200", "flash_decode", DT_BF16, { 1, 32, 8, 32768, 128 }, 43.4 },
	{ DECODE, "h200", "flash_decode", DT_BF16, { 8, 32, 8, 1024, 128 }, 14.7 },
	{ DECODE, "h200", "flash_decode", DT_BF16, { 8, 32, 8, 4096, 128 }, 42.2 },
	{ DECODE, "h200", "flash_decode", DT_BF16, { 8, 32, 8, 16384, 128 }, 131.8 },
	{ DECODE, "h200", "flash_decode", DT_BF16, { 64, 32, 8, 8192, 128 }, 484 },
	/* H100 at its best seen, 3169 GB/s of KV. */
	{ DECODE,
	  "h100",
	  "flash_decode",
	  DT_BF16,
	  { 64, 32, 8, 8192, 128 },
	  64.0 * 2 * 8 * 8192 * 128 * 2 / 3169e3 },
	/* Library peaks on random data: H200 861, H100 846, A100 290 TFLOPS. */
	{ GEMM_PEAK, "h200", "gemm_fp16", DT_FP16, { 4096, 4096, 4096 }, 176 },
	{ GEMM_PEAK,
	  "h200",
	  "gemm_fp16",
	  DT_FP16,
	  { 8192, 8192, 8192 },
	  GEMM_US(8192, 8192, 8192, 832) },
	{ GEMM_PEAK,
	  "h100",
	  "gemm_fp16",
	  DT_FP16,
	  { 8192, 8192, 8192 },
	  GEMM_US(8192, 8192, 8192, 836) },
	{ GEMM_PEAK,
	  "a100",
	  "gemm_fp16",
	  DT_FP16,
	  { 8192, 8192, 8192 },
	  GEMM_US(8192, 8192, 8192, 290) },
	{ GEMM_PEAK,
	  "rtx_5090",
	  "gemm_fp16",
	  DT_FP16,
	  { 4096, 4096, 4096 },
	  GEMM_US(4096, 4096, 4096, 198) },
	/* Elementwise law on H200, in the shapes of our ops. */
	{ ELEMENTWISE, "h200", "rmsnorm", DT_BF16, { 64, 4096 }, STREAM_US(64.0 * 4096 * 4) },
	{ ELEMENTWISE, "h200", "rmsnorm", DT_BF16, { 4096, 8192 }, STREAM_US(4096.0 * 8192 * 4) },
	{ ELEMENTWISE,
	  "h200",
	  "swiglu_act",
	  DT_BF16,
	  { 4096, 14336 },
	  STREAM_US(4096.0 * 14336 * 6) },
	{ ELEMENTWISE, "h200", "rmsnorm", DT_BF16, { 65536, 4096 }, STREAM_US(65536.0 * 4096 * 4) },
};

int public_classes(void)
{
	return N_CLASSES;
}

const char *public_class(int c)
{
	return classes[c];
}

int public_points(void)
{
	return (int)(sizeof points / sizeof *points);
}

struct public_point public_point(int i)
{
	return points[i];
}

static void describe(const struct problem *p, const struct kernel *k, const int64_t *params,
                     struct public_answer *out)
{
	size_t n = (size_t)snprintf(out->choice, sizeof out->choice, "%s", k->variant);

	for (int i = 0; i < k->n_params && n < sizeof out->choice; i++)
		n += (size_t)snprintf(out->choice + n, sizeof out->choice - n, " %s=%lld",
		                      k->params[i].name, (long long)params[i]);
	n = (size_t)snprintf(out->shape, sizeof out->shape, "%s", p->op->name);
	for (int i = 0; i < p->op->n_axes && n < sizeof out->shape; i++)
		n += (size_t)snprintf(out->shape + n, sizeof out->shape - n, "%c%lld",
		                      i ? ',' : ' ', (long long)p->shape[i]);
}

void public_model(const struct public_point *pt, struct public_answer *out)
{
	struct problem p = { .op = op_find(pt->op),
		             .impl = IMPL_CUDA,
		             .gpu = gpu_find(pt->gpu),
		             .dtype = pt->dtype };
	int n;
	const struct kernel *const *kernels = kernel_list(pt->op, false, &n);

	memcpy(p.shape, pt->shape, sizeof p.shape);
	out->us = -1;
	for (int i = 0; i < n; i++) {
		struct binding b;
		int64_t params[KERNEL_MAX_PARAMS];
		bool more = true;

		if (config_unmet(p.gpu, kernels[i]))
			continue;
		config_bind(&p, kernels[i], &b);
		for (config_first(kernels[i], params); more;
		     more = config_next(kernels[i], params)) {
			struct resources r;
			struct estimate e;

			if (!model_try(&p, &b, params, &r, &e))
				continue;
			if (out->us < 0 || e.us < out->us) {
				out->us = e.us;
				describe(&p, kernels[i], params, out);
			}
		}
	}
	if (out->us < 0)
		bug("no configuration of %s for %s", pt->op, pt->gpu);
}

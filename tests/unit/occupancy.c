/* occupancy.c - gpu_occupancy against values taken from CUDA 13.0's header. */
#include "gpu/gpu.h"

#include <string.h>

#include "check.h"

int main(void)
{
	/* threads, registers, smem; blocks on sm_80, sm_86, sm_90, sm_120. */
	static const struct {
		int threads, registers;
		int64_t smem;
		int blocks[4];
	} cases[] = {
		{ 256, 128, 97 * 1024, { 1, 1, 2, 1 } }, { 128, 168, 72 * 1024, { 2, 1, 3, 1 } },
		{ 384, 168, 200000, { 0, 0, 1, 0 } },    { 1024, 64, 0, { 1, 1, 1, 1 } },
		{ 1024, 65, 0, { 0, 0, 0, 0 } },
	};
	static const char *const gpus[4] = { "a100", "a10", "h200", "rtx_5090" };
	int n;
	const struct gpu *list = gpu_list(&n);

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (int g = 0; g < 4; g++) {
			struct occupancy o = gpu_occupancy(gpu_find(gpus[g]), cases[i].threads,
			                                   cases[i].registers, cases[i].smem);

			check(o.blocks == cases[i].blocks[g],
			      "%d threads, %d registers, %lld bytes on %s: %d blocks",
			      cases[i].threads, cases[i].registers, (long long)cases[i].smem,
			      gpus[g], o.blocks);
		}
	}
	check(gpu_occupancy(gpu_find("h200"), 1025, 32, 0).blocks == 0,
	      "1025 threads cannot launch");
	check(gpu_occupancy(gpu_find("h200"), 32, 16, 0).blocks == 32, "tiny blocks stop at 32");
	check(gpu_occupancy(gpu_find("a10"), 32, 16, 0).blocks == 16, "and at 16 on GA102");
	check(gpu_occupancy(gpu_find("h200"), 256, 32, 0).fraction == 1.0,
	      "256 threads at 32 registers fill an SM");
	for (int i = 0; i < n; i++) {
		const struct gpu *g = &list[i];

		check(!*g->sister || (gpu_find(g->sister) &&
		                      strcmp(gpu_find(g->sister)->arch, g->arch) == 0),
		      "%s's sister has its arch", g->name);
		/* The data sheet's figures must agree with each other: FMA lanes are
		 * a multiple of 64 per SM, tensor FLOP/clk/SM a multiple of 512. */
		double lanes = g->fp32_tflops * 1e6 / (2 * g->sms * g->boost_mhz);
		double tensor = g->tc16_tflops * 1e6 / (g->sms * g->tensor_mhz);

		check(lanes > 63 && lanes < 129, "%s: %.1f fp32 lanes per SM", g->name, lanes);
		check(tensor / 512 - (int)(tensor / 512 + 0.5) < 0.03 &&
		              tensor / 512 - (int)(tensor / 512 + 0.5) > -0.03,
		      "%s: %.0f tensor FLOP per clock and SM", g->name, tensor);
		check(gpu_has(g, GPU_CP_ASYNC), "%s has cp.async", g->name);
	}
	check(gpu_has(gpu_find("h200"), GPU_WGMMA) && !gpu_has(gpu_find("rtx_5090"), GPU_WGMMA),
	      "wgmma on sm_90a alone");
	check(gpu_has(gpu_find("rtx_5090"), GPU_TMA) && !gpu_has(gpu_find("a100"), GPU_TMA),
	      "TMA from sm_90");
	check(gpu_has(gpu_find("rtx_5090"), GPU_MXF8) && !gpu_has(gpu_find("h200"), GPU_MXF8),
	      "mxf8 on sm_120a");
	check(!gpu_has(gpu_find("a10"), GPU_FP8_MMA) && gpu_has(gpu_find("h100"), GPU_FP8_MMA),
	      "fp8 mma from sm_89");
	check(gpu_feature_from_name("wgmma") == GPU_WGMMA &&
	              gpu_feature_from_name("warp_drive") < 0,
	      "features by name");
	return check_done();
}

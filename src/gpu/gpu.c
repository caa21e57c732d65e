/*
 * gpu.c - the GPU table, the feature gates and the occupancy calculator.
 */
#include "gpu/gpu.h"

#include <string.h>

static const struct gpu gpus[] = {
#define GPU(...) { __VA_ARGS__ },
#include "gpu/gpu.def"
#undef GPU
};

/* Least compute capability of a feature; `only` restricts it to one. Source:
 * probes assembled with ptxas 13.0. */
static const struct {
	const char *name;
	int from, only, also;
} features[GPU_FEATURE_COUNT] = {
	[GPU_CP_ASYNC] = { "cp_async", 80, 0, 0 },       [GPU_TMA] = { "tma", 90, 0, 0 },
	[GPU_CLUSTER] = { "cluster", 90, 0, 0 },         [GPU_WGMMA] = { "wgmma", 0, 90, 0 },
	[GPU_SETMAXNREG] = { "setmaxnreg", 0, 90, 120 }, [GPU_FP8_MMA] = { "fp8_mma", 89, 0, 0 },
	[GPU_FP4_CVT] = { "fp4_cvt", 0, 120, 0 },        [GPU_MXF8] = { "mxf8", 0, 120, 0 },
};

const struct gpu *gpu_list(int *n)
{
	*n = (int)(sizeof gpus / sizeof *gpus);
	return gpus;
}

const struct gpu *gpu_find(const char *name)
{
	for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
		if (strcmp(gpus[i].name, name) == 0)
			return &gpus[i];
	}
	return NULL;
}

bool gpu_has(const struct gpu *g, enum gpu_feature f)
{
	if (features[f].only)
		return g->cc == features[f].only || g->cc == features[f].also;
	return g->cc >= features[f].from;
}

const char *gpu_feature_name(enum gpu_feature f)
{
	return features[f].name;
}

int gpu_feature_from_name(const char *name)
{
	for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
		if (strcmp(features[i].name, name) == 0)
			return i;
	}
	return -1;
}

struct occupancy gpu_occupancy(const struct gpu *g, int threads, int registers, int64_t smem)
{
	enum {
		WARP = 32,
		PARTITIONS = 4,
		REGISTERS_PER_PARTITION = 16384,
		WARP_REGISTER_UNIT = 256,
		SYSTEM_SMEM = 1024,
		SMEM_UNIT = 128
	};
	struct occupancy o = { 0, 0.0, OCC_WARPS };
	int warps = (threads + WARP - 1) / WARP, max_warps = g->max_threads_per_sm / WARP;
	int warp_registers = (registers * WARP + WARP_REGISTER_UNIT - 1) / WARP_REGISTER_UNIT *
	                     WARP_REGISTER_UNIT;
	int64_t block_smem = (smem + SYSTEM_SMEM + SMEM_UNIT - 1) / SMEM_UNIT * SMEM_UNIT;
	int by_warps, by_blocks = g->max_blocks_per_sm, by_registers = by_blocks;
	int64_t by_smem = g->smem_per_sm / block_smem;

	if (threads < 1 || threads > 1024 || registers > 255) {
		o.limit = OCC_REGISTERS;
		return o;
	}
	by_warps = max_warps / warps;
	if (warp_registers > 0) {
		/* A block's warps are spread over the four partitions, each with its
		 * own registers; the launch check rounds warps up to whole rounds. */
		if (warp_registers * ((warps + PARTITIONS - 1) / PARTITIONS * PARTITIONS) >
		    PARTITIONS * REGISTERS_PER_PARTITION)
			by_registers = 0;
		else
			by_registers =
				REGISTERS_PER_PARTITION / warp_registers * PARTITIONS / warps;
	}
	if (smem > g->smem_per_block)
		by_smem = 0;
	o.blocks = by_warps;
	if (by_blocks < o.blocks) {
		o.blocks = by_blocks;
		o.limit = OCC_BLOCKS;
	}
	if (by_registers < o.blocks) {
		o.blocks = by_registers;
		o.limit = OCC_REGISTERS;
	}
	if (by_smem < o.blocks) {
		o.blocks = (int)by_smem;
		o.limit = OCC_SMEM;
	}
	o.fraction = (double)(o.blocks * warps) / max_warps;
	return o;
}

/*
 * gpu.h - the GPUs that rows speak of: data sheet, features, occupancy.
 *
 * A row of gpu.def is a GPU; each number has its source there.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include <stdbool.h>
#include <stdint.h>

/* Hardware features a kernel may need; names as in the kernel files'
 * `needs` markers. Gates: one-instruction probes assembled by ptxas 13.0. */
enum gpu_feature {
	GPU_CP_ASYNC,   /* sm_80 and later */
	GPU_TMA,        /* sm_90 and later */
	GPU_CLUSTER,    /* sm_90 and later */
	GPU_WGMMA,      /* sm_90a alone */
	GPU_SETMAXNREG, /* sm_90a, sm_120a */
	GPU_FP8_MMA,    /* sm_89 and later */
	GPU_FP4_CVT,    /* sm_120a */
	GPU_MXF8,       /* sm_120a: block-scaled mxf8f6f4 mma */
	GPU_FEATURE_COUNT
};

struct gpu {
	const char *name;    /* "h200" */
	const char *product; /* "NVIDIA H200 SXM 141GB HBM3e" */
	const char *arch;    /* "sm_90a" */
	int cc;              /* 80, 86, 90, 120 */
	const char *sister;  /* the GPU of the same arch, or "" */
	int sms;
	double boost_mhz;   /* of the fp32 peak */
	double tensor_mhz;  /* clock that the tensor peak implies */
	double fp32_tflops; /* FMA counted as 2 */
	double tc16_tflops; /* dense fp16/bf16, fp32 accumulate */
	double tc8i_tops;   /* dense int8 */
	double tc8f_tflops; /* dense fp8; 0: the arch has none */
	double dram_gb, dram_gbps;
	double l2_mb;
	int smem_per_sm;    /* bytes, largest carve-out */
	int smem_per_block; /* bytes, opt-in limit */
	int max_threads_per_sm, max_blocks_per_sm;
	double dram_latency; /* cycles at boost */
	double l2_latency;   /* cycles at boost */
};

/* All GPUs in gpu.def's order. Static lifetime. */
const struct gpu *gpu_list(int *n);
const struct gpu *gpu_find(const char *name); /* NULL unknown */
bool gpu_has(const struct gpu *g, enum gpu_feature f);
const char *gpu_feature_name(enum gpu_feature f);
int gpu_feature_from_name(const char *name); /* -1 unknown */

/* What limits the resident blocks. */
enum occupancy_limit { OCC_WARPS, OCC_BLOCKS, OCC_REGISTERS, OCC_SMEM };

struct occupancy {
	int blocks;      /* resident per SM; 0: the block cannot launch */
	double fraction; /* resident warps / maximum, 0 … 1 */
	enum occupancy_limit limit;
};

/* Exact occupancy as CUDA 13.0's cuda_occupancy.h computes it (checked
 * against that header's own results). threads 1 … 1024; registers per thread up to 255;
 * smem = static + dynamic bytes per block. */
struct occupancy gpu_occupancy(const struct gpu *g, int threads, int registers, int64_t smem);

#endif

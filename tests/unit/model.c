/* model.c - the latency model: physics over the whole space, its structure,
 * and how far it is from public measurements. */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/public.h"
#include "ops/holdout.h"

/* Every op x GPU x shape x variant, parameters in steps: no time below the
 * physical floor, the launch overhead, or a bandwidth above the peak. */
static void physics(const struct op *op)
{
	int n_gpus, below = 0, none = 0, done = 0;
	const struct gpu *gpus = gpu_list(&n_gpus);
	char first[256] = "";

	for (int g = 0; g < n_gpus; g++) {
		for (int s = 0; s < op->n_shapes; s++) {
			for (int d = 0; d < op->n_dtypes; d++) {
				for (int impl = 0; impl < IMPL_COUNT; impl++) {
					struct problem p = { .op = op,
						             .impl = (enum impl)impl,
						             .gpu = &gpus[g],
						             .dtype = op->dtypes[d] };
					int n, legal = 0;
					const struct kernel *const *list =
						kernel_list(op->name, impl == IMPL_TRITON, &n);

					memcpy(p.shape, op->shapes[s], sizeof p.shape);
					for (int i = 0; i < n; i++) {
						struct binding b;
						int64_t params[KERNEL_MAX_PARAMS];
						bool more = true;
						int step = 0;

						if (!kernel_has_dtype(list[i],
						                      dtype_name(p.dtype)) ||
						    config_unmet(p.gpu, list[i]))
							continue;
						config_bind(&p, list[i], &b);
						for (config_first(list[i], params); more;
						     more = config_next(list[i], params)) {
							struct resources r;
							struct estimate e;
							double floor_us = model_floor_us(&p);
							double bytes =
								(double)op->bytes(p.shape, p.dtype);

							/* naive in full, the others in steps. */
							if (i && step++ % 5)
								continue;
							if (!model_try(&p, &b, params, &r, &e))
								continue;
							legal++;
							done++;
							if (e.us < floor_us || e.us < e.floor_us ||
							    bytes / e.us > p.gpu->dram_gbps * 1e3) {
								if (!below++)
									snprintf(
										first, sizeof first,
										"%s on %s, shape %d, %s: %.3f us, floor %.3f",
										list[i]->path,
										gpus[g].name, s,
										dtype_name(p.dtype),
										e.us, floor_us);
							}
						}
						if (i == 0 && !legal)
							none++;
					}
				}
			}
		}
	}
	check(!below, "%s: %d configurations obey physics%s%s", op->name, done,
	      below ? "; first: " : "", first);
	check(!none, "%s: naive serves every shape on every GPU", op->name);
}

/* The model counts a persistent block's chain once per tile that it walks: a chain
 * that contains the walk itself would count it twice (an rmsnorm came out 2650
 * times too slow). Twice the rows make twice the tiles and no longer chain. */
static void chains(const struct op *op)
{
	for (int impl = 0; impl < IMPL_COUNT; impl++) {
		int n;
		const struct kernel *const *list = kernel_list(op->name, impl == IMPL_TRITON, &n);

		for (int i = 0; i < n; i++) {
			struct problem p = { .op = op,
				             .impl = (enum impl)impl,
				             .gpu = gpu_find("h200"),
				             .dtype = op->dtypes[0] };
			int64_t params[KERNEL_MAX_PARAMS];
			struct resources r[2];
			bool walks = false, same = true;

			for (int l = 0; l < list[i]->n_launches; l++)
				walks |= list[i]->launches[l].cost[COST_TILES].n > 0;
			if (!walks)
				continue;
			config_preset(list[i], params);
			memcpy(p.shape, op->shapes[0], sizeof p.shape);
			p.shape[0] = 1 << 16;
			for (int k = 0; k < 2; k++, p.shape[0] *= 2) {
				struct binding b;

				config_bind(&p, list[i], &b);
				same &= config_resources(&b, params, &r[k]);
			}
			for (int l = 0; same && l < r[0].n; l++)
				same = list[i]->launches[l].cost[COST_TILES].n == 0 ||
				       (r[0].launch[l].chain == r[1].launch[l].chain &&
				        r[0].launch[l].tiles < r[1].launch[l].tiles);
			check(same, "%s: the chain is that of one tile", list[i]->path);
		}
	}
}

static struct launch stream(double bytes, int64_t inflight)
{
	int64_t b = (int64_t)bytes;

	return (struct launch){ .grid = 132 * 8,
		                .block = 256,
		                .regs = 32,
		                .read = b,
		                .once = b,
		                .inflight = inflight,
		                .eff = 100,
		                .tiles = b / 65536 + 1 };
}

static double us_of(const char *gpu, struct launch l, struct estimate *e)
{
	struct resources r = { 1, { l } };

	if (!model_estimate(gpu_find(gpu), &r, e))
		return -1;
	return e->us;
}

static void structure(void)
{
	struct estimate e, f;
	struct launch l = stream(1e9, 65536), m;
	double us = us_of("h200", l, &e);

	check(e.limiter == LIMIT_MEMORY, "a long stream is limited by memory");
	check(1e9 / us > 0.85 * 4800e3 && 1e9 / us < 0.93 * 4800e3, "and reaches %.0f GB/s of 4800",
	      1e9 / us / 1e3);
	us_of("h200", stream(1e9, 512), &f);
	check(f.limiter == LIMIT_OCCUPANCY && f.us > 2 * us,
	      "with few bytes in flight it is limited by occupancy");
	us_of("h200", stream(1e4, 65536), &f);
	check(f.limiter == LIMIT_LAUNCH, "a tiny one by the launch");
	m = l;
	m.grid = m.tiles = 16;
	check(us_of("h200", m, &f) > 3 * us, "on 16 SMs it takes longer");
	m = l;
	m.tc16 = 2LL * 8192 * 8192 * 8192;
	m.grid = m.tiles = 132 * 16;
	us_of("h200", m, &e);
	check(e.limiter == LIMIT_TENSOR, "a large product is limited by the tensor pipe");
	m.grid = m.tiles = 132 * 16 + 1;
	us_of("h200", m, &f);
	check(f.us > 1.03 * e.us, "one tile more than whole waves costs a wave");
	m.regs = 300;
	us_of("h200", m, &f);
	check(f.spill > 0 && f.us > 3 * e.us, "spilled accumulators are a cliff");
	m.regs = 257;
	us_of("h200", m, &f);
	check(f.spill > 0 && f.us < 1.2 * e.us, "a few spilled values are not");
	m = l;
	m.read = 4 * l.once;
	us_of("h200", m, &f);
	check(f.us > 1.2 * us, "re-reads cost L2 bandwidth");
	m.tiles = m.grid;
	us_of("h200", m, &e);
	check(e.us > f.us, "and DRAM when a wave's working set leaves L2");
	m = l;
	m.chain = 4000000;
	us_of("h200", m, &f);
	check(f.limiter == LIMIT_LATENCY, "a serial chain is limited by latency");
	m = l;
	m.smem = 300000;
	check(us_of("h200", m, &f) < 0, "a block beyond the shared memory cannot run");
	check(model_relieves(LIMIT_LATENCY, &(struct terms){ .serial = 2 },
	                     &(struct terms){ .serial = 1 }) &&
	              !model_relieves(LIMIT_LATENCY, &(struct terms){ .serial = 1 },
	                              &(struct terms){ .serial = 1 }),
	      "a shorter chain relieves latency, an equal one does not");
	check(model_noise(3) > 3 * model_noise(3000) && model_noise(3000) < 0.003,
	      "short times are noisier");
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What `make model-check` prints, held: medians of the absolute error. */
static void public(void)
{
	static const double bound[] = { 0.10, 0.25, 0.25, 0.10 };

	for (int c = 0; c < public_classes(); c++) {
		double error[256];
		int n = 0;

		for (int i = 0; i < public_points(); i++) {
			struct public_point pt = public_point(i);
			struct public_answer a;

			if (pt.class != c)
				continue;
			public_model(&pt, &a);
			error[n++] = fabs(a.us / pt.us - 1);
		}
		qsort(error, (size_t)n, sizeof *error, by_size);
		check(error[n / 2] < bound[c], "%s: median error %.1f %%, at most %.0f",
		      public_class(c), 100 * error[n / 2], 100 * bound[c]);
	}
}

int main(void)
{
	int n;
	const struct op *const *ops = op_list(&n);

	structure();
	for (int i = 0; i < n; i++) {
		physics(ops[i]);
		chains(ops[i]);
	}
	public();
	return check_done();
}

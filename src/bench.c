/*
 * bench - answers for candidates what simulate answers, on the GPU of this
 * machine; and proves, sweeps and times what the project claims of its kernels.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/die.h"
#include "base/opt.h"
#include "gpurun/candidates.h"
#include "gpurun/done.h"
#include "gpurun/host.h"
#include "gpurun/labels.h"
#include "gpurun/sweep.h"
#include "row/row.h"

static bool candidates, labels, sweep, noise, peers, compile_only, verify_only, list;
static const char *kinds, *done_files, *gpu_name, *ops, *variants,
	*cache = "build/bench", *worker, *python, *from = "data/measured/h200_sweep.jsonl";
static int64_t jobs, batch = 1, workers = 4, shapes = 8, configs = 40, samples = 50, deadline = 60,
		     limit;
static double budget = 200;
static uint64_t seed = 1;

static const char *check_gpu(const char *s)
{
	return gpu_find(s) ? NULL : "unknown GPU";
}

static const char *check_op(const char *s)
{
	return op_find(s) ? NULL : "unknown op";
}

static const struct opt options[] = {
	{ 'c', "candidates", OPT_FLAG, &candidates, NULL,
	  "rows are bare candidates (see space); print a result row each", 0, 0, NULL },
	{ 0, "labels", OPT_FLAG, &labels, NULL,
	  "read nothing; prove what the kernel files claim, a row per label", 0, 0, NULL },
	{ 0, "sweep", OPT_FLAG, &sweep, NULL,
	  "read nothing; measure a seeded set of configurations of every op", 0, 0, NULL },
	{ 0, "noise", OPT_FLAG, &noise, NULL,
	  "read nothing; time the same kernels again and again (see --from)", 0, 0, NULL },
	{ 0, "peers", OPT_FLAG, &peers, NULL, "read nothing; time PyTorch's operators", 0, 0,
	  NULL },
	{ 0, "list", OPT_FLAG, &list, NULL,
	  "with --labels: prove nothing, name the labels that --done has not; exit 1 if any", 0, 0,
	  NULL },
	{ 0, "kinds", OPT_LIST, &kinds, "LIST",
	  "with --labels: only verifies, wrong, arch, compile; the last two need no GPU but --gpu",
	  0, 0, labels_kind },
	{ 0, "done", OPT_LIST, &done_files, "FILE,...", "leave out what these output files hold", 0,
	  0, NULL },
	{ 0, "limit", OPT_INT, &limit, "S", "begin nothing after S seconds (0: no limit)", 0,
	  1000000, NULL },
	{ 0, "compile-only", OPT_FLAG, &compile_only, NULL,
	  "fill the cache, run nothing; needs no GPU but --gpu", 0, 0, NULL },
	{ 0, "verify-only", OPT_FLAG, &verify_only, NULL, "time nothing", 0, 0, NULL },
	{ 0, "gpu", OPT_STR, &gpu_name, "NAME",
	  "the device's row in gpu.def (default: by its name)", 0, 0, check_gpu },
	{ 0, "ops", OPT_LIST, &ops, "LIST", "only these ops", 0, 0, check_op },
	{ 0, "variants", OPT_LIST, &variants, "LIST", "only these variants", 0, 0, NULL },
	{ 0, "shapes", OPT_INT, &shapes, "N", "of each op, for --sweep and --peers", 1, 100, NULL },
	{ 0, "configs", OPT_INT, &configs, "N", "of each op and impl, for --sweep", 4, 200, NULL },
	{ 0, "from", OPT_STR, &from, "FILE", "for --noise: a sweep's rows", 0, 0, NULL },
	{ 's', "seed", OPT_SEED, &seed, "S", "of inputs, and of what is drawn", 0, 0, NULL },
	{ 0, "samples", OPT_INT, &samples, "N", "of one timing, at most", 5, RUN_MAX_SAMPLES,
	  NULL },
	{ 0, "budget", OPT_NUM, &budget, "MS", "of one timing: then five samples do", 1, 100000,
	  NULL },
	{ 0, "deadline", OPT_INT, &deadline, "S", "of one candidate on the GPU", 1, 3600, NULL },
	{ 'j', "jobs", OPT_INT, &jobs, "N", "compilers at a time (0: one per core)", 0, 512, NULL },
	{ 0, "batch", OPT_INT, &batch, "N", "files of a variant per call of nvcc", 1, 16, NULL },
	{ 0, "workers", OPT_INT, &workers, "N", "at work together while nothing is timed", 1, 16,
	  NULL },
	{ 0, "cache", OPT_STR, &cache, "DIR", "of compiled candidates", 0, 0, NULL },
	{ 0, "worker", OPT_STR, &worker, "PATH", "bench-worker (default: beside this program)", 0,
	  0, NULL },
	{ 0, "python", OPT_STR, &python, "PATH", "of the Triton worker (default: python3)", 0, 0,
	  NULL },
	{ 0 },
};

static struct lab lab;

static int modes(void)
{
	return labels + sweep + noise + peers;
}

/* --- starting ------------------------------------------------------------------ */

/* One bench at a time on a device: the lock is on the worker's file, and is held
 * until we end. */
static void take_device(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die_errno("cannot read '%s'", path);
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return;
	if (errno != EWOULDBLOCK)
		die_errno("cannot lock '%s'", path);
	if (!opt_quiet)
		warn("waiting for another bench on this machine");
	if (flock(fd, LOCK_EX))
		die_errno("cannot lock '%s'", path);
}

static void start_pool(void)
{
	struct pool_options o = {
		.exclusive = !labels && !verify_only,
		.deadline_s = (double)deadline,
		.start_s = 180,
		.lifetime = 200,
	};
	struct buf log = { 0 };
	char *path = worker ? xstrdup(worker) : host_beside("bench-worker");

	if (access(path, X_OK))
		die(EX_IO, "no bench-worker at '%s': make builds it where nvcc is", path);
	o.argv[WORKER_CUDA][0] = path;
	o.active[WORKER_CUDA] = o.exclusive ? 1 : (int)workers;
	o.argv[WORKER_TRITON][0] = host_program(python ? python : "python3", NULL);
	o.missing[WORKER_TRITON] = "no python3 on this machine";
	o.argv[WORKER_TRITON][1] = host_beside("../src/etc/triton_worker.py");
	/* Triton compiles in its worker: several of them use the other cores. */
	o.active[WORKER_TRITON] = o.exclusive ? 1 : (host_cores() + 1) / 2;
	if (access(o.argv[WORKER_TRITON][1], R_OK)) {
		o.argv[WORKER_TRITON][0] = NULL;
		o.missing[WORKER_TRITON] = "no src/etc/triton_worker.py beside bin/";
	}
	take_device(path);
	free(host_folder(cache));
	buf_printf(&log, "%s/worker.log", cache);
	o.log = log.data;
	pool_open(&o);
}

static void load_done(const char *const *members)
{
	char *copy, *save = NULL;

	if (!done_files)
		return;
	copy = xstrdup(done_files);
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save))
		done_load(p, members);
	free(copy);
}

static const char *const *members(void)
{
	return labels  ? labels_members
	       : sweep ? sweep_members
	       : noise ? noise_members
	       : peers ? peers_members
	               : done_candidate;
}

static void start(void)
{
	struct build_options b = {
		.folder = cache,
		.jobs = jobs ? (int)jobs : host_cores(),
		.batch = (int)batch,
		.deadline_s = 300, /* nvcc's worst on a machine whose cores are all at it */
	};
	bool needs_device = !compile_only && !list &&
	                    (!kinds || strstr(kinds, "verifies") || strstr(kinds, "wrong"));

	if (modes() + candidates > 1)
		opt_usage(
			"--candidates, --labels, --sweep, --noise and --peers exclude each other");
	if (list && !labels)
		opt_usage("--list goes with --labels");
	if (compile_only && (noise || peers))
		opt_usage("--compile-only does not go with --noise and --peers");
	if (!needs_device && !gpu_name)
		opt_usage("--compile-only and --list want --gpu: no device is asked");
	load_done(members());
	build_open(&b);
	lab = (struct lab){
		.gpu = gpu_name ? gpu_find(gpu_name) : NULL,
		.seed = seed,
		.samples = (int)samples,
		.budget_ms = budget,
		.ops = ops,
		.variants = variants,
	};
	schedule_open(&(struct schedule_options){
		.timed = !labels && !verify_only && !compile_only,
		.until = limit ? host_seconds() + (double)limit : 0,
	});
	if (!needs_device)
		return;
	start_pool();
	lab.device = pool_hello(WORKER_CUDA);
	if (!lab.gpu && !(lab.gpu = answer_gpu(lab.device)))
		die(EX_IO, "no row of gpu.def is this device: '%s'", lab.device->gpu);
	if (lab.gpu->cc != lab.device->cc)
		die(EX_IO, "the device is no %s: '%s'", lab.gpu->name, lab.device->gpu);
}

static void finish(void)
{
	if (lab.device)
		pool_close();
	build_close();
}

/* --- the filter ---------------------------------------------------------------- */

static void begin_filter(void)
{
	start();
	candidates_start(&lab, &(struct candidates_options){ .build_only = compile_only,
	                                                     .verify_only = verify_only });
	row_before_end = candidates_before_end;
}

static void take(struct row *r)
{
	if (candidates)
		candidates_take(r);
	else
		candidates_take_episode(r);
}

static int end_filter(void)
{
	int code = candidates_finish();

	finish();
	return code;
}

/* --- the ways of working without rows -------------------------------------------- */

static int run_mode(void)
{
	int code;

	start();
	if (labels)
		code = labels_run(&lab, &(struct labels_options){ .build_only = compile_only,
		                                                  .list = list,
		                                                  .kinds = kinds });
	else if (sweep)
		code = sweep_run(&lab, &(struct sweep_options){ .configs = (int)configs,
		                                                .shapes = (int)shapes,
		                                                .build_only = compile_only });
	else if (noise)
		code = noise_run(&lab, from);
	else
		code = peers_run(&lab, (int)shapes);
	finish();
	return code;
}

int main(int argc, char **argv)
{
	static const struct filter filter = {
		.program = {
			.name = "bench",
			.summary = "Compiles, verifies and times candidates on this machine's GPU.",
			.input = "episode rows; with --candidates, candidate rows",
			.output = "a result row for each candidate of this GPU; with --labels, --sweep, --noise, --peers: see the README",
			.opts = options,
			.notes = "A candidate is compiled by nvcc, verified on several families of inputs and\n"
			         "timed only then. What is printed can be given to --done later.\n",
		},
		.row = take,
		.start = begin_filter,
		.finish = end_filter,
	};

	for (int i = 1; i < argc; i++) {
		static const char *const names[] = { "--labels", "--sweep", "--noise", "--peers" };

		for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
			if (!strcmp(argv[i], names[k])) {
				struct program rowless = filter.program;

				rowless.input = NULL;
				opt_parse(&rowless, argc, argv, false);
				return run_mode();
			}
		}
	}
	return filter_main(&filter, argc, argv);
}

# kernelswarm: builds bin/ from src/, runs the tests. `make help` lists the
# targets; pipeline.mk builds the data.
#
# A new program (src/NAME.c), kernel file, op or scenario is found by its place:
# nothing is registered by hand.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := programs
export LC_ALL := C

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O3
WERROR ?= -Werror
BUILD ?= build
BIN ?= bin
JOBS ?= $(shell nproc)
OUT ?= data

# What the bytes of the data rest on, whatever CFLAGS says.
STRICT := -std=c11 -ffp-contract=off -D_POSIX_C_SOURCE=200809L \
	-Wall -Wextra -Wshadow -Wconversion $(WERROR) -Isrc -I$(BUILD)
COMPILE = $(CC) $(STRICT) $(CFLAGS)
LIBS := -lcjson -lm

# --- what there is -----------------------------------------------------------

# bench alone sees a GPU, and alone links gpurun.
PROGRAMS := $(filter-out bench,$(sort $(patsubst src/%.c,%,$(wildcard src/*.c))))
# From high to low, which is also the order that the linker wants.
LAYERS := swarm model episode ops kernels gpu row base
# The referee is independent of the player: these cannot even link it.
NO_PLAYER := score reward shard lint
layers_of = $(if $(filter $1,$(NO_PLAYER)),$(filter-out swarm model,$(LAYERS)),$(LAYERS))

# model/check.c is `make model-check`'s own program.
sources_of = $(filter-out src/model/check.c,$(sort $(wildcard src/$1/*.c)))
objects_of = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(call sources_of,$1))
archives_of = $(foreach l,$1,$(if $(call sources_of,$l),$(BUILD)/lib/$l.a))

KERNELS := $(patsubst src/kernels/%,%,$(sort $(wildcard src/kernels/*/*.cu src/kernels/*/*.py)))
KERNEL_INCS := $(KERNELS:%=$(BUILD)/kernels/%.inc)
SCENARIOS := $(patsubst src/swarm/scenario_%.c,%,$(sort $(wildcard src/swarm/scenario_*.c)))
MODEL_CHECK := $(firstword $(wildcard src/model/check.c tests/unit/model_check.c))
UNITS := $(patsubst tests/unit/%.c,%,$(filter-out %/model_check.c,$(sort $(wildcard tests/unit/*.c))))

# $(call stamp,FILE,TEXT) rewrites FILE only if it says something else, so that
# what depends on FILE is made again when a compiler, a flag or a list changes.
same = $(and $(findstring [$1],[$2]),$(findstring [$2],[$1]))
stamp = $(if $(call same,$(file <$(BUILD)/stamps/$1),$(strip $2)),,$(file >$(BUILD)/stamps/$1,$(strip $2)))
ifeq ($(wildcard $(BUILD)/stamps/.),)
$(shell mkdir -p $(BUILD)/stamps $(BUILD)/lib $(BUILD)/unit $(BIN))
endif
$(call stamp,flags,$(COMPILE) $(LIBS))
$(foreach l,$(LAYERS),$(call stamp,$l,files: $(call sources_of,$l)))
$(call stamp,kernel-files,files: $(KERNELS))

# --- bin/ --------------------------------------------------------------------

.PHONY: programs units all
programs: $(PROGRAMS:%=$(BIN)/%) $(BIN)/bench
units: $(UNITS:%=$(BUILD)/unit/%)
all: programs units

# V=1 shows the commands.
QUIET := $(if $V,,@)

# Objects, archives and programs appear by rename: a killed or a second make
# leaves none half-written.
define compile
@mkdir -p $(@D); $(if $V,,echo '  cc   $<')
$(QUIET)$(COMPILE) -MMD -MP -MT $@ -MF $(@:.o=.d) -c -o $@.$$$$ $< && mv $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }
endef
define link
@mkdir -p $(@D); $(if $V,,echo '  link $@')
$(QUIET)$(COMPILE) -o $@.$$$$ $(filter %.o %.a,$^) $(LIBS) && mv $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }
endef

$(BUILD)/obj/%.o: src/%.c $(BUILD)/stamps/flags | $(BUILD)/stamps/deps-build
	$(compile)
$(BUILD)/obj/tests/%.o: tests/%.c $(BUILD)/stamps/flags | $(BUILD)/stamps/deps-build
	$(compile)

define archive_rule
$(BUILD)/lib/$1.a: $(call objects_of,$1) $(BUILD)/stamps/$1
	@mkdir -p $$(@D); rm -f $$@.$$$$$$$$; ar rcsD $$@.$$$$$$$$ $$(filter %.o,$$^) && mv $$@.$$$$$$$$ $$@
endef
$(foreach l,$(LAYERS),$(eval $(call archive_rule,$l)))

define program_rule
$(BIN)/$1: $(BUILD)/obj/$1.o $(call archives_of,$(call layers_of,$1))
	$$(link)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$p)))

$(UNITS:%=$(BUILD)/unit/%): $(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(call archives_of,$(LAYERS))
	$(link)

# --- what the build writes: the kernel files as bytes, and three lists ---------

symbol = kfile_$(subst .,_,$(subst /,__,$1))

$(BUILD)/kernels/%.inc: src/kernels/%
	@mkdir -p $(@D)
	@{ echo 'static const unsigned char $(call symbol,$*)[] = {'; od -An -v -tu1 $< | sed 's/ *\([0-9]\{1,\}\)/\1,/g'; echo '0};'; } >$@.$$$$; mv $@.$$$$ $@

$(BUILD)/kernels.inc: $(BUILD)/stamps/kernel-files Makefile
	@{ for f in $(KERNELS); do echo "#include \"kernels/$$f.inc\""; done; \
	echo 'static const struct kernel_file kernel_files[] = {'; \
	for f in $(KERNELS); do \
		v=$${f#*/} s=$${f//\//__}; s=kfile_$${s//./_}; \
		echo "	{\"$${f%%/*}\", \"$${v%.*}\", \"$${v##*.}\", $$s, sizeof $$s - 1},"; \
	done; echo '};'; } >$@.$$$$; mv $@.$$$$ $@

# A file of ops/ is a problem if it defines ops_<file>[].
$(BUILD)/ops.inc: $(BUILD)/stamps/ops $(call sources_of,ops)
	@for f in $(patsubst src/ops/%.c,%,$(call sources_of,ops)); do \
		! grep -q "^const struct op ops_$$f\[" src/ops/$$f.c || echo "OPS_FILE($$f)"; \
	done >$@.$$$$; cmp -s $@.$$$$ $@ && rm $@.$$$$ || mv $@.$$$$ $@

$(BUILD)/scenarios.inc: $(BUILD)/stamps/swarm
	@for f in $(SCENARIOS); do echo "SCENARIO($$f)"; done >$@.$$$$; mv $@.$$$$ $@

# Before the first compile nothing knows who includes them; later .d files do.
$(call objects_of,kernels): | $(BUILD)/kernels.inc $(KERNEL_INCS)
$(call objects_of,ops): | $(BUILD)/ops.inc
$(call objects_of,swarm) $(BUILD)/obj/plan.o $(BUILD)/obj/simulate.o: | $(BUILD)/scenarios.inc

-include $(wildcard $(BUILD)/obj/*.d $(BUILD)/obj/*/*.d $(BUILD)/obj/tests/unit/*.d)

# --- bench and its worker, which is not of `programs`: nvcc takes minutes ---------

.PHONY: bench labels sanitize gpu-best gpu-report
# The worker is built where nvcc is; elsewhere a program of its name says so.
bench: $(BIN)/bench $(BIN)/bench-worker

# The references in C are the worker's.
GPURUN := $(patsubst src/%.c,$(BUILD)/obj/%.o,$(filter-out src/gpurun/cref%,$(sort $(wildcard src/gpurun/*.c))))
$(call stamp,gpurun,files: $(GPURUN))
$(BIN)/bench: $(BUILD)/obj/bench.o $(GPURUN) $(BUILD)/stamps/gpurun $(call archives_of,$(filter-out swarm model,$(LAYERS)))
	$(link)

MEASURED := data/measured
# Proves what changed since the committed labels; needs an H200.
labels: bench
	@BIN='$(abspath $(BIN))' src/etc/labels.sh $(MEASURED)/labels_h200.jsonl
# Every variant under compute-sanitizer: memcheck, and racecheck where it can see.
sanitize: bench
	@for t in memcheck racecheck; do BIN='$(abspath $(BIN))' src/etc/sanitize.sh $(MEASURED)/labels_h200.jsonl $$t; done
# Measures anew, on one machine, the fastest that is known and PyTorch's operators.
gpu-best: bench
	@mkdir -p $(BUILD)/best
	@BIN='$(abspath $(BIN))' src/etc/best.sh top $(wildcard $(MEASURED)/h200_best.jsonl $(MEASURED)/h200_sweep.jsonl) >$(BUILD)/best/top
	@$(BIN)/bench --candidates $(BUILD)/best/top >$(BUILD)/best/h200_best.jsonl
	@$(BIN)/bench --peers >$(BUILD)/best/h200_peers.jsonl
	@mv $(BUILD)/best/h200_best.jsonl $(BUILD)/best/h200_peers.jsonl $(MEASURED)
gpu-report:
	@src/etc/gpu_report.sh $(MEASURED)/h200_peers.jsonl $(MEASURED)/h200_best.jsonl $(MEASURED)/h200_sweep.jsonl
	@echo
	@src/etc/noise_report.sh $(MEASURED)/h200_noise.jsonl

ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(wildcard $(addsuffix /nvcc,$(subst :, ,$(PATH)) /usr/local/cuda/bin)))
endif
NVCC_ARCHS ?= 80 86 90a 120a
# Candidates are linked to the same shared run time: only so does the worker's know their kernels.
COMPILE_CUDA = $(NVCC) -std=c++17 -O2 -cudart shared -Isrc -I$(BUILD) \
	$(foreach a,$(NVCC_ARCHS),-gencode=arch=compute_$a,code=sm_$a)
LINK_CUDA = $(NVCC) -cudart shared -Xlinker -rpath,$(abspath $(dir $(NVCC))../lib64)
WORKER_SOURCES := $(sort $(wildcard src/gpurun/*.cu))
WORKER_OBJECTS := $(patsubst src/gpurun/%.cu,$(BUILD)/gpurun/%.o,$(WORKER_SOURCES)) \
	$(patsubst src/%.c,$(BUILD)/obj/%.o,$(sort $(wildcard src/gpurun/cref*.c)))
$(call stamp,nvcc,$(COMPILE_CUDA) $(LINK_CUDA))
$(call stamp,worker,files: $(WORKER_OBJECTS))

# A file check_NAME.cu defines ops_NAME[].
$(BUILD)/gpurun_problems.inc: $(BUILD)/stamps/worker
	@printf 'GPURUN_PROBLEM(%s)\n' $(patsubst src/gpurun/check_%.cu,%,$(filter src/gpurun/check_%,$(WORKER_SOURCES))) >$@.$$$$; mv $@.$$$$ $@

$(BUILD)/gpurun/%.o: src/gpurun/%.cu $(BUILD)/stamps/nvcc | $(BUILD)/gpurun_problems.inc
	@mkdir -p $(@D); $(if $V,,echo '  nvcc $<')
	$(QUIET)$(COMPILE_CUDA) -MMD -MP -MT $@ -MF $(@:.o=.d) -c -o $@.$$$$.o $< && mv $@.$$$$.o $@ || { rm -f $@.$$$$.o; exit 1; }

ifneq ($(NVCC),)
$(BIN)/bench-worker: $(WORKER_OBJECTS) $(BUILD)/stamps/nvcc $(BUILD)/stamps/worker
	@mkdir -p $(@D); $(if $V,,echo '  link $@')
	$(QUIET)$(LINK_CUDA) -o $@.$$$$ $(filter %.o,$^) -ldl -lm && mv $@.$$$$ $@ || { rm -f $@.$$$$; exit 1; }
else
$(BIN)/bench-worker: $(BUILD)/stamps/nvcc
	@mkdir -p $(@D)
	@printf '%s\n' '#!/bin/sh' "echo 'bench-worker: built without nvcc: it cannot run kernels' >&2" 'exit 3' >$@.$$$$; chmod +x $@.$$$$; mv $@.$$$$ $@
endif

-include $(wildcard $(BUILD)/gpurun/*.d)

# --- the system: installs what is missing --------------------------------------

.PHONY: deps
deps: $(BUILD)/stamps/deps-build $(BUILD)/stamps/deps-data $(BUILD)/stamps/deps-test $(BUILD)/stamps/deps-check
$(BUILD)/stamps/deps-%: src/etc/deps.sh
	@CC='$(CC)' src/etc/deps.sh $*
	@touch $@

# --- data ----------------------------------------------------------------------

.PHONY: dataset shard validate FORCE
PIPELINE = $(MAKE) --no-print-directory -f pipeline.mk BIN='$(BIN)' OUT='$(OUT)' JOBS='$(JOBS)'
dataset: programs $(BUILD)/stamps/deps-data
	@$(PIPELINE) dataset
shard: programs $(BUILD)/stamps/deps-data
	@$(PIPELINE) shard SHARD='$(SHARD)'
$(OUT)/batches/batch_%.jsonl: programs $(BUILD)/stamps/deps-data FORCE
	@$(PIPELINE) shard SHARD='$*'
validate: programs $(BUILD)/stamps/deps-data
	@$(PIPELINE) validate

# --- tests ---------------------------------------------------------------------

.PHONY: test test-asan asan fuzz perf model-check check format
TESTS ?= $(sort $(wildcard tests/*.bats))
# A small word for `make test UPDATE=1`, which rewrites the golden files.
UPDATE ?=
# The default data set that the data tests share; made again only when stale.
TESTDATA := $(BUILD)/testdata

test: programs units $(BUILD)/stamps/deps-data $(BUILD)/stamps/deps-test
	@BIN='$(abspath $(BIN))' BUILD='$(abspath $(BUILD))' CC='$(CC)' UPDATE='$(UPDATE)' \
		JOBS='$(JOBS)' tests/run.sh $(UNITS:%=$(BUILD)/unit/%) $(TESTS)

SANITIZE := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ASAN = $(MAKE) --no-print-directory BUILD=build/asan BIN=build/asan/bin CFLAGS='$(SANITIZE)'
asan:
	@$(ASAN) all
# A row's memory is given back at the end of the row or of the process.
test-asan: asan
	@SANITIZED=1 ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 $(ASAN) test

SECONDS ?= 300
SEED ?= 1
fuzz:
	@$(ASAN) build/asan/fuzz
	@build/asan/fuzz $(SECONDS) $(SEED)
$(BUILD)/fuzz: $(BUILD)/obj/tests/fuzz.o $(call archives_of,$(LAYERS))
	$(link)

perf: programs $(BUILD)/stamps/deps-data $(BUILD)/stamps/deps-perf $(BUILD)/cjson_loop
	@BIN='$(abspath $(BIN))' BUILD='$(abspath $(BUILD))' JOBS='$(JOBS)' src/etc/perf.sh
$(BUILD)/cjson_loop: $(BUILD)/obj/etc/cjson_loop.o
	$(link)

ifneq ($(MODEL_CHECK),)
# Against public figures, then against our own measurements.
model-check: $(BUILD)/model_check programs
	@$<
	@BIN='$(abspath $(BIN))' src/etc/model_error.sh $(wildcard $(MEASURED)/h200_best.jsonl $(MEASURED)/h200_sweep.jsonl)
$(BUILD)/model_check: $(BUILD)/obj/$(patsubst src/%,%,$(MODEL_CHECK:.c=.o)) $(call archives_of,$(LAYERS))
	$(link)
else
model-check:
	@echo 'no src/model/check.c yet' >&2; exit 1
endif

C_FILES = $(sort $(wildcard src/*.[ch] src/*/*.[ch] tests/*.[ch] tests/unit/*.[ch]))
check: programs $(BUILD)/stamps/deps-check
	@CC='$(CC)' STRICT='$(STRICT)' BUILD='$(BUILD)' src/etc/check.sh $(C_FILES)
	@BIN='$(abspath $(BIN))' BUILD='$(abspath $(BUILD))' bats tests/layout.bats
format: $(BUILD)/stamps/deps-check
	clang-format -i $(C_FILES)

# --- the rest ------------------------------------------------------------------

.PHONY: help clean
# By list, and only what make made: never data/samples or data/measured.
clean:
	rm -rf $(BUILD) $(PROGRAMS:%=$(BIN)/%) $(BIN)/bench $(BIN)/bench-worker
	@$(MAKE) --no-print-directory -f pipeline.mk OUT='$(OUT)' clean
	@rmdir $(BIN) 2>/dev/null || true

help:
	@sed -n 's/^#: \{0,1\}//p' Makefile pipeline.mk

#: make            build the programs into bin/ (and bin/NAME alone)
#: make bench      bin/bench, and bin/bench-worker where nvcc is
#: make labels     prove on an H200 what the kernel files claim, as far as it changed
#: make sanitize   every variant under compute-sanitizer, on a GPU
#: make gpu-best   measure the fastest known configurations beside PyTorch's operators
#: make gpu-report the README's tables of measured kernels, from data/measured
#: make dataset    build the data set into data/
#: make shard SHARD=7           (or data/batches/batch_007.jsonl) one batch alone
#: make validate   lint and check sums of the whole set; silent when all is well
#: make test       every test; TESTS='tests/shard.bats' some; UPDATE=1 rewrites golden files
#: make check      format, shellcheck, cppcheck, the other compiler, headers alone, layers
#: make format     clang-format in place
#: make asan, make test-asan    programs, tests under ASAN and UBSAN
#: make fuzz SECONDS=300 SEED=1 structure-aware fuzzing of the row reader
#: make perf       rows/s, MB/s and memory of each program against jq and cJSON
#: make model-check             the latency model against published figures and our own
#: make deps       install what is missing (Debian; done by itself when needed)
#: make clean      remove what make made
#:
#: CC=gcc|clang CFLAGS=-O3 WERROR=-Werror   the compiler
#: BUILD=build BIN=bin V=1                  where things are built; show commands

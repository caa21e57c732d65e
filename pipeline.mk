# pipeline.mk: the data build and nothing else (`make dataset` calls it).
#
# A batch is one pipe, with no files between its stages. It depends on its
# command line (.batch_NNN.cmd, rewritten only when it differs) and on the
# programs that it runs: a knob makes again exactly the batches whose command it
# changes. Make judges, GNU parallel schedules, and every file appears by rename.
#
# The file is read in three roles, each a make of its own:
#   (none)  takes the lock, which all processes below it inherit
#   plan    writes the command lines, judges the batches, has the stale ones made
#   set     makes the rest of them: joins, statistics, sums, card

# --- knobs: set on the command line, never by the environment -----------------

SEED := 1
EPISODES := 2400
SHARD_SIZE := 100
SCENARIO :=
REWARD := standard
OPS :=
GPUS :=
OUT := data
JOBS = $(shell nproc)
HOSTS :=
HOSTS_BIN :=
#:
#: The data:
#: SEED=1 EPISODES=2400 SHARD_SIZE=100 REWARD=standard OUT=data
#: SCENARIO= OPS= GPUS=    one scenario, some ops (a,b), some GPUs; empty: all
#: JOBS=2                  batches at a time; all cores unless given
#: HOSTS=FILE              spread the batches over ssh destinations ([jobs/]host a line)
#: HOSTS_BIN=DIR           the programs' folder there; empty: they are shipped

BIN := bin
# data/ has its hold-out in holdout/ too, where nobody but an evaluation looks.
HOLDOUT_COPY := $(if $(filter data,$(OUT)),holdout/tasks_holdout.jsonl)
ROLE :=

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.PRECIOUS: %
.PHONY: dataset shard validate clean plan set knobs FORCE
export LC_ALL := C
export PATH := $(abspath $(BIN)):$(PATH)
export SEED EPISODES SHARD_SIZE SCENARIO REWARD OPS GPUS OUT JOBS HOSTS HOSTS_BIN SHARD BIN

B := $(OUT)/batches
# make -n tells the commands, takes no lock and writes nothing.
DRY := $(findstring n,$(firstword -$(MAKEFLAGS)))
AGAIN = $(MAKE) --no-print-directory -f pipeline.mk

ifeq ($(ROLE),)
# --- no role: the lock ---------------------------------------------------------

LOCK := exec 9>>$(OUT)/.lock; flock -n 9 || { echo 'another build holds $(OUT)/.lock' >&2; exit 1; };

dataset: knobs
	+@$(if $(DRY),,$(LOCK)) $(AGAIN) ROLE=plan JOBS=$(JOBS) plan; $(AGAIN) -j2 ROLE=set set
	@echo '$(OUT): $(EPISODES) episodes, sums in $(OUT)/SHA256SUMS, card in $(OUT)/README.md'
shard: knobs
	+@$(if $(DRY),,$(LOCK)) $(AGAIN) ROLE=plan JOBS=1 ONLY="$$(printf %03d "$$((10#$(SHARD)))")" plan
$B/batch_%.jsonl: FORCE
	+@$(AGAIN) shard SHARD=$*

knobs:
	@src/etc/knobs.sh $(filter shard,$(MAKECMDGOALS))
	@mkdir -p $B

validate:
	@src/etc/validate.sh $(OUT)

# By list: what the build made, and nothing else that lies there.
clean:
	@[ ! -e $(OUT)/.lock ] || { $(LOCK) rm -f $(B)/batch_*.jsonl $(B)/.batch_*; \
	rm -f $(addprefix $(OUT)/,episodes.jsonl tasks_holdout.jsonl stats.json SHA256SUMS README.md .[a-z]*) $(HOLDOUT_COPY); }
	@rmdir $(B) $(OUT) $(if $(HOLDOUT_COPY),holdout) 2>/dev/null || true

else
# --- plan: the batches ---------------------------------------------------------

# $(call stamp,FILE,TEXT): FILE says TEXT, and is touched only if it did not.
same = $(and $(findstring [$1],[$2]),$(findstring [$2],[$1]))
stamp = $(if $(call same,$(file <$1),$2),,$(if $(DRY),$(eval $1: FORCE),$(file >$1,$2)))

# NNN:START:COUNT of each batch.
LIST := $(shell for ((k = 0, s = 0; s < $(EPISODES); k++, s += $(SHARD_SIZE))); do \
	n=$$(($(EPISODES) - s)); printf '%03d:%d:%d ' $$k $$s $$((n < $(SHARD_SIZE) ? n : $(SHARD_SIZE))); done)
LIST := $(if $(ONLY),$(filter $(ONLY):%,$(LIST)),$(LIST))
field = $(word $1,$(subst :, ,$2))
NUMBERS := $(foreach b,$(LIST),$(call field,1,$b))
BATCHES := $(NUMBERS:%=$B/batch_%.jsonl)

# The recipe of a batch. What score pays is the standard scheme: reward, asked
# for that, changes no byte (tests/reward.bats), so it is asked only for others.
command = taskgen --seed $(SEED) --start $(call field,2,$1) -n $(call field,3,$1)$(OPS:%= --ops %)$(GPUS:%= --gpus %) \
| plan$(SCENARIO:%= --scenario %) | simulate | score$(patsubst %, | reward --scheme %,$(filter-out standard,$(REWARD)))
$(foreach b,$(LIST),$(call stamp,$B/.batch_$(call field,1,$b).cmd,$(call command,$b)))

$(BIN)/%:
	@echo 'no $@ yet: run make' >&2; exit 1

# Noted here, made by batches.sh: the rows, their sum, their partial statistics.
PROGRAMS := $(addprefix $(BIN)/,taskgen plan simulate score reward stats)
$B/batch_%.jsonl $B/.batch_%.sum $B/.batch_%.stats: $B/.batch_%.cmd $(PROGRAMS)
	$(eval STALE += $*)$(if $(DRY),$(info $(call command,$(filter $*:%,$(LIST))) >$B/batch_$*.jsonl))

plan: $(BATCHES) $(foreach n,$(NUMBERS),$B/.batch_$n.sum $B/.batch_$n.stats)
	$(if $(DRY),,$(file >$(OUT)/.stale,$(STALE)))
	@src/etc/batches.sh $(JOBS) <$(OUT)/.stale

# --- set: what is made of the batches --------------------------------------------

ifeq ($(ROLE),set)
$(call stamp,$(OUT)/.batches,$(NUMBERS:%=batches/batch_%.jsonl))
$(call stamp,$(OUT)/.tasks_holdout.cmd,taskgen --split holdout -n 512)
$(call stamp,$(OUT)/.knobs,$(foreach k,SEED EPISODES SHARD_SIZE SCENARIO REWARD OPS GPUS,$k=$($k)))
endif
# What lies there from a build with more batches.
STRAY := $(filter-out $(BATCHES) $(foreach n,$(NUMBERS),$B/.batch_$n.%),$(wildcard $B/batch_*.jsonl $B/.batch_*))

# $(call whole,COMMAND): the target is COMMAND's output, all of it or none.
whole = ( $1 ) >$(@D)/.$(@F).tmp && mv $(@D)/.$(@F).tmp $@ || { rm -f $(@D)/.$(@F).tmp; exit 1; }
# The side files of all batches; not in make's words, for there may be thousands.
sides = cd $(OUT); b=$$(<.batches); b=$${b//batch_/.batch_}; $1 $${b//.jsonl/.$2}

set: $(OUT)/README.md $(OUT)/SHA256SUMS $(HOLDOUT_COPY)
	@$(if $(STRAY),rm -f $(STRAY);) :

# Summed while it is written: it is as large as all batches together.
$(OUT)/episodes.jsonl $(OUT)/.episodes.jsonl.sum &: $(BATCHES) $(OUT)/.batches $(BIN)/shard
	@cd $(OUT); t=.episodes.jsonl; trap "rm -f $$t.tmp $$t.sum.tmp" EXIT; \
	shard --join $$(<.batches) | tee $$t.tmp | $(CURDIR)/src/etc/sha256.sh episodes.jsonl >$$t.sum.tmp; \
	mv $$t.sum.tmp $$t.sum; mv $$t.tmp episodes.jsonl
$(OUT)/stats.json: $(BATCHES) $(OUT)/.batches $(BIN)/stats
	@$(call whole,$(call sides,stats --merge,stats))
$(OUT)/tasks_holdout.jsonl: $(OUT)/.tasks_holdout.cmd $(BIN)/taskgen
	@$(call whole,$(file <$<))
$(OUT)/SHA256SUMS: $(BATCHES) $(addprefix $(OUT)/,.batches episodes.jsonl tasks_holdout.jsonl stats.json)
	@$(call whole,{ $(call sides,cat,sum); cat .episodes.jsonl.sum; \
	for f in stats.json tasks_holdout.jsonl; do $(CURDIR)/src/etc/sha256.sh $$f <$$f; done; } | sort -k 2)
$(OUT)/README.md: $(addprefix $(OUT)/,SHA256SUMS .knobs) src/etc/card.sh src/etc/card.md.in $(BIN)/lint
	@$(call whole,src/etc/card.sh $(OUT) <src/etc/card.md.in)
$(HOLDOUT_COPY): $(OUT)/tasks_holdout.jsonl
	@mkdir -p $(@D); $(call whole,cat $<)
endif

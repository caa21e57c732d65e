#!/usr/bin/env bats
# What can be proved of bench without a GPU: a stand-in speaks the worker's
# protocol, nvcc compiles. What needs a GPU is skipped, and says so.
load helper

setup_file() {
	mkdir -p "$BATS_FILE_TMPDIR/bin"
	space --list-kernels | jq -c 'select(.op == "rmsnorm" and .impl == "cuda" and .variant == "naive")' >"$BATS_FILE_TMPDIR/naive"
	gcc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -I"$ROOT/src" \
		"$ROOT/tests/fixtures/bench/standin.c" -o "$BATS_FILE_TMPDIR/bin/standin"
}

setup() {
	# The lock is on the worker's file: each test has its own.
	cp "$BATS_FILE_TMPDIR/bin/standin" "$BATS_TEST_TMPDIR/worker"
	CHEATS=$ROOT/tests/fixtures/cheats
}

# answers OPTION…: bench with the stand-in; the cache is this file's.
answers() {
	bench --worker "$BATS_TEST_TMPDIR/worker" --cache "$BATS_FILE_TMPDIR/cache" --deadline 5 "$@" 3>&-
}

# rows T…: candidates of rmsnorm, one per number of tokens, which tells the
# stand-in what to do.
rows() {
	jq -c --args '.preset as $params | $ARGS.positional[] | {op: "rmsnorm", impl: "cuda", gpu: "h200", arch: "sm_90a",
		dtype: "fp16", shape: {T: tonumber, D: 4096}, variant: "naive", params: $params, fault: null, source: null}' \
		"$@" <"$BATS_FILE_TMPDIR/naive"
}

# cheat FILE OP AXES: a candidate row with that source.
cheat() {
	jq -n -c --rawfile source "$CHEATS/$1" --arg file "$1" --arg op "$2" --arg axes "$3" '
		{op: $op, impl: (if $file | endswith(".py") then "triton" else "cuda" end), gpu: "h200", arch: "sm_90a", dtype: (if $op == "topk_sample" then "fp32" else "fp16" end),
		shape: ($axes | split(",") | map(split("=") | {key: .[0], value: (.[1] | tonumber)}) | from_entries),
		variant: "somebodys", params: {}, fault: null, source: $source}'
}

# gpu: skips unless a GPU and its worker are here.
gpu() {
	nvidia-smi -L 2>/dev/null | grep -q . || skip "no GPU on this machine"
	[[ -x $BIN/bench-worker ]] || skip "no bin/bench-worker: make bench"
}

@test "help and version are asked for on stdout" {
	status 0 bench --help
	[[ -s $out && ! -s $err ]]
	head -n 1 "$out" | grep -q '^usage: bench '
	status 0 bench --labels --help
	status 0 bench --version
	grep -qE '^bench [0-9.]+ \(' "$out"
}

@test "usage errors: unknown options, ways of working that exclude each other" {
	local args
	for args in --no-such "--labels --sweep" "--candidates --labels" --list "--noise --compile-only --gpu h200" \
		"--labels --compile-only" "--gpu h300" "--ops nothing" "--samples 4" "--labels FILE"; do
		# shellcheck disable=SC2086
		status 2 bench $args </dev/null
		[[ ! -s $out ]]
		said "bench: try 'bench --help'"
	done
}

@test "without a worker, or with one that cannot start, bench says why and exits 3" {
	status 3 bench --candidates --worker "$BATS_TEST_TMPDIR/none" --cache "$BATS_TEST_TMPDIR/cache" /dev/null
	said "bench: no bench-worker at '$BATS_TEST_TMPDIR/none': make builds it where nvcc is"
	STANDIN_FAILS=1 status 3 answers --candidates /dev/null
	said "bench: bench-worker does not start: bench-worker: no CUDA device: cudaErrorNoDevice"
}

@test "no rows, no answers; rows before a bad one are answered" {
	tool nvcc
	status 0 answers --candidates /dev/null
	[[ ! -s $out ]]
	{ rows 1 12; echo '{"op":'; rows 1; } >"$BATS_TEST_TMPDIR/in"
	status 1 answers --candidates "$BATS_TEST_TMPDIR/in"
	grep -q "^bench: $BATS_TEST_TMPDIR/in:3: " "$err"
	(($(wc -l <"$out") == 2))
	rows 1 | sed 's/naive/nobody/' >"$BATS_TEST_TMPDIR/in"
	status 1 answers --candidates "$BATS_TEST_TMPDIR/in"
	said "bench: $BATS_TEST_TMPDIR/in:1: unknown variant 'nobody'"
	status 1 answers --candidates --keep-going --rejects "$BATS_TEST_TMPDIR/bad" <(cat "$BATS_TEST_TMPDIR/in"; rows 12)
	(($(wc -l <"$out") == 1 && $(wc -l <"$BATS_TEST_TMPDIR/bad") == 1))
}

@test "each way that a run can end has its status" {
	tool nvcc
	STANDIN_ONCE=$BATS_TEST_TMPDIR/once status 0 answers --candidates <(rows 1 2 3 4 5 6 7 8 10 11)
	[[ $(jq -r '[.shape.T, .status, .verify.status, .verify.reason, .bench.ms, .provenance.note] | map(. // "-") | join(" ")' "$out") == "\
1 ok pass - 0.0102 -
2 crashed - - - the worker died of signal 11
3 timeout - - - no answer within 5 s
4 infra_error - - - no memory
5 launch_error - - - cudaErrorInvalidValue
6 crashed - - - cudaErrorIllegalAddress
7 wrong_result fail mismatch - F2: y[17]
8 ok pass - 0.0102 -
10 ok pass - 0.0102 -
11 wrong_result fail stale - F2: y[17]" ]] || fail "$(jq -c '[.shape.T, .status, .verify, .provenance.note]' "$out")"
	# A result row is a candidate row with five keys more, filled as simulate does.
	rows 1 | simulate --candidates | jq -c 'keys_unsorted, (.compile, .bench, .verify | keys_unsorted)' >"$BATS_TEST_TMPDIR/keys"
	jq -c 'select(.shape.T == 1) | keys_unsorted, (.compile, .bench, .verify | keys_unsorted)' "$out" | cmp - "$BATS_TEST_TMPDIR/keys"
	jq -e -s '.[0].provenance | .samples == 50 and .median_ms == 0.0102 and .p10_ms == 0.01 and .p90_ms == 0.0104
		and .floor_ms == 0.0021 and .stream_ms == 0.0042 and .gpu == "NVIDIA H200" and .clocks_before == 1980
		and (.source_hash | test("^[0-9a-f]{16}$"))' "$out"
	jq -e -s '.[0] | .env == "measured" and .bench.occupancy == 0.75 and .compile.registers > 0' "$out"
}

@test "an infrastructure error earns nothing, not zero" {
	# The last result of an agent that no later message speaks of.
	simulate <(taskgen -n 4) >"$BATS_TEST_TMPDIR/episodes"
	jq -c '(.messages | map(select(.kind == "result" and .status != "ok")) | last.candidate) as $c
		| (.messages[] | select(.kind == "result" and .candidate == $c))
			|= (.status = "infra_error" | .verify = null | .bench = null)' "$BATS_TEST_TMPDIR/episodes" >"$BATS_TEST_TMPDIR/in"
	status 0 score "$BATS_TEST_TMPDIR/in"
	jq -e -s '[.[].messages[] | select(.kind == "result" and .status == "infra_error")]
		| length == 4 and all(.reward == null)' "$out"
}

@test "a time that physics forbids is an error, not a row" {
	tool nvcc
	status 1 answers --candidates <(rows 9 1)
	(($(wc -l <"$out") == 1))
	grep -q "rmsnorm takes 1e-07 ms, which no kernel can: at least " "$err"
}

@test "what a candidate prints reaches neither stdout nor a row" {
	tool nvcc
	status 0 answers --cache "$BATS_TEST_TMPDIR/cache" --candidates <(rows 10)
	(($(wc -l <"$out") == 1))
	jq -e '.bench.ms == 0.0102' "$out"
	grep -q '"ms":1e-9' "$BATS_TEST_TMPDIR/cache/worker.log"
}

@test "--done leaves out what is answered; infrastructure errors are asked again; a torn line does no harm" {
	tool nvcc
	status 0 answers --candidates <(rows 1 12 4)
	cp "$out" "$BATS_TEST_TMPDIR/done"
	printf '{"op":"rms' >>"$BATS_TEST_TMPDIR/done"
	status 0 answers --candidates --done "$BATS_TEST_TMPDIR/done" <(rows 1 12 4 13)
	[[ $(jq -r .shape.T "$out" | tr '\n' ' ') == "4 13 " ]]
	said "bench: 2 candidates were done before"
	said "bench: $BATS_TEST_TMPDIR/done:4: no row, left out"
}

@test "candidates of other GPUs are left out and counted" {
	status 0 answers --candidates <(rows 1 | sed 's/"h200","arch":"sm_90a"/"a100","arch":"sm_80"/')
	[[ ! -s $out ]]
	said "bench: 1 candidates of other GPUs than h200 left out"
}

@test "f(a) f(b) = f(a b), and the order of the rows is kept" {
	tool nvcc
	rows 1 12 5 >"$BATS_TEST_TMPDIR/a"
	rows 7 13 >"$BATS_TEST_TMPDIR/b"
	status 0 answers --candidates "$BATS_TEST_TMPDIR/a"
	cp "$out" "$out.ab"
	status 0 answers --candidates "$BATS_TEST_TMPDIR/b"
	cat "$out" >>"$out.ab"
	status 0 answers --candidates "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
	cmp <(jq -c 'del(.provenance.date)' "$out") <(jq -c 'del(.provenance.date)' "$out.ab")
}

@test "the compile cache answers the second time, for refusals too" {
	tool nvcc
	local dir=$BATS_TEST_TMPDIR/cache
	rows 1 >"$BATS_TEST_TMPDIR/in"
	rows 1 | jq -c '.source = "this is no C++"' >>"$BATS_TEST_TMPDIR/in"
	status 0 answers --cache "$dir" --candidates "$BATS_TEST_TMPDIR/in"
	[[ $(jq -r .status "$out" | tr '\n' ' ') == "ok compile_error " ]]
	jq -e -s '.[1].compile | .status == "error" and (.log | startswith("candidate.cu(1): error: "))' "$out"
	cp "$out" "$out.first"
	# No compiler is there to be asked.
	PATH=$BIN:/usr/bin:/bin status 0 env PATH="$BIN:/usr/bin:/bin" bench --worker "$BATS_TEST_TMPDIR/worker" \
		--cache "$dir" --jobs 1 --candidates "$BATS_TEST_TMPDIR/in"
	cmp <(jq -c 'del(.provenance.date)' "$out") <(jq -c 'del(.provenance.date)' "$out.first")
	none find "$dir" -name 'tmp.*'
	(($(find "$dir" -name '*.so' | wc -l) == 1 && $(find "$dir" -name '*.txt' | wc -l) == 2))
}

@test "files compiled in one call have the machine code that they have alone" {
	tool nvcc objcopy
	taskgen -n 60 --ops rmsnorm | space --sample 6 --variants warp_rows |
		jq -c 'select(.impl == "cuda") | .gpu = "h200" | .arch = "sm_90a" | .shape = {T: 64, D: 4096}' |
		awk '!seen[$0]++' | sed -n 1,4p >"$BATS_TEST_TMPDIR/in"
	(($(wc -l <"$BATS_TEST_TMPDIR/in") == 4))
	status 0 bench --candidates --compile-only --gpu h200 --cache "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/in"
	status 0 bench --candidates --compile-only --gpu h200 --cache "$BATS_TEST_TMPDIR/all" --batch 4 --jobs 1 "$BATS_TEST_TMPDIR/in"
	local f n=0
	for f in "$BATS_TEST_TMPDIR"/one/*.so; do
		objcopy -O binary --only-section=.nv_fatbin "$f" "$BATS_TEST_TMPDIR/code.one"
		objcopy -O binary --only-section=.nv_fatbin "$BATS_TEST_TMPDIR/all/${f##*/}" "$BATS_TEST_TMPDIR/code.all"
		[[ -s $BATS_TEST_TMPDIR/code.one ]]
		cmp "$BATS_TEST_TMPDIR/code.one" "$BATS_TEST_TMPDIR/code.all"
		# Registers and spills are told apart in the common report.
		cmp "${f%.so}.txt" "$BATS_TEST_TMPDIR/all/$(basename "${f%.so}").txt"
		n=$((n + 1))
	done
	((n == 4))
}

@test "a batch that fails is no answer: its files are compiled one by one" {
	tool nvcc
	mkdir "$BATS_TEST_TMPDIR/bin"
	cat >"$BATS_TEST_TMPDIR/bin/nvcc" <<-END
		#!/bin/sh
		case "\$*" in *candidate1.cu*) echo 'candidate1.cu(1): error: several' >&2; exit 1 ;; esac
		exec $(command -v nvcc) "\$@"
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/nvcc"
	rows 1 | jq -c --slurpfile naive "$BATS_FILE_TMPDIR/naive" '
		($naive[0].params | to_entries[0]) as $p | .params[$p.key] = $p.value[:3][]' >"$BATS_TEST_TMPDIR/in"
	(($(wc -l <"$BATS_TEST_TMPDIR/in") == 3))
	PATH=$BATS_TEST_TMPDIR/bin:$PATH status 0 answers --cache "$BATS_TEST_TMPDIR/cache" --batch 3 --jobs 1 --candidates "$BATS_TEST_TMPDIR/in"
	[[ $(jq -r .status "$out" | tr '\n' ' ') == "ok ok ok " ]]
}

@test "the symbol check refuses the cheats that it can see, and says which symbol" {
	tool nvcc
	local file op shape reason
	while IFS=$'\t' read -r file op shape reason; do
		[[ $reason != forbidden_symbol || $file == *.py ]] || cheat "$file" "$op" "$shape"
	done < <(grep -v '^#' "$CHEATS/expected.tsv") >"$BATS_TEST_TMPDIR/in"
	(($(wc -l <"$BATS_TEST_TMPDIR/in") >= 4))
	status 0 answers --candidates "$BATS_TEST_TMPDIR/in"
	[[ $(jq -r '.status + " " + .verify.reason' "$out" | sort -u) == "wrong_result forbidden_symbol" ]]
	[[ $(jq -r .provenance.note "$out" | sort) == "\
a constructor of its own
exported symbol 'cudaEventElapsedTime'
undefined symbol '__cudaRegisterVar'
undefined symbol 'cublasGemmEx'" ]] || fail "$(jq -r .provenance.note "$out")"
}

@test "every cheat compiles and is in the table; those that no linker sees get past the symbols" {
	tool nvcc
	cmp <(cd "$CHEATS" && ls -- *.cu *.py) <(grep -v '^#' "$CHEATS/expected.tsv" | cut -f1 | sort)
	local file op shape reason
	while IFS=$'\t' read -r file op shape reason; do
		[[ $reason == forbidden_symbol || $file == *.py ]] || cheat "$file" "$op" "$shape"
	done < <(grep -v '^#' "$CHEATS/expected.tsv") >"$BATS_TEST_TMPDIR/in"
	# The stand-in believes everything.
	status 0 answers --candidates --verify-only "$BATS_TEST_TMPDIR/in"
	[[ $(jq -r .status "$out" | sort -u) == ok ]] || fail "$(jq -c 'select(.status != "ok") | [.op, .compile.log, .provenance.note]' "$out")"
}

@test "each cheat is refused for its own reason" {
	gpu
	local file op shape reason
	while IFS=$'\t' read -r file op shape reason; do
		cheat "$file" "$op" "$shape" | jq -c --arg file "$file" --arg reason "$reason" '. + {file: $file, expected: $reason}'
	done < <(grep -v '^#' "$CHEATS/expected.tsv") >"$BATS_TEST_TMPDIR/in"
	status 0 bench --candidates --cache "$BATS_FILE_TMPDIR/cache" "$BATS_TEST_TMPDIR/in"
	none jq -c 'select(.verify.reason != .expected) | [.file, .expected, .status, .verify.reason, .provenance.note]' "$out"
}

@test "the references and the tests of outputs hold against plain C" {
	gpu
	status 0 "$BIN/bench-worker" --certify
	none grep '^not ok' "$out"
}

@test "the Triton worker's references and tests hold against plain Python" {
	local python
	for python in python3 /usr/bin/python3 none; do
		! "$python" -c 'import torch' 2>/dev/null || break
	done
	[[ $python != none ]] || skip "no PyTorch on this machine"
	status 0 "$python" "$ROOT/src/etc/triton_worker.py" --certify --cpu
	none grep '^not ok' "$out"
	grep -q '^1\.\.' "$out"
}

@test "the Triton worker's idea of the protocol is the header's" {
	tool python3
	cat >"$BATS_TEST_TMPDIR/sizes.c" <<-'END'
		#include <stddef.h>
		#include <stdio.h>
		#include "gpurun/protocol.h"
		int main(void)
		{
			printf("%d %zu %zu %zu %zu %zu\n", RUN_PROTOCOL, sizeof(struct run_request), sizeof(struct run_answer),
			       sizeof(struct run_hello), offsetof(struct run_request, gap_ms), offsetof(struct run_answer, threads));
		}
	END
	gcc -I"$ROOT/src" "$BATS_TEST_TMPDIR/sizes.c" -o "$BATS_TEST_TMPDIR/sizes"
	python3 - "$ROOT/src/etc/triton_worker.py" >"$BATS_TEST_TMPDIR/python" <<-'END'
		import ast, ctypes, sys
		tree = ast.parse(open(sys.argv[1]).read())
		space = {"ctypes": ctypes}
		for node in tree.body:
		    names = [t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)]
		    if getattr(node, "name", "") in ("Request", "Answer", "Hello") or {"PROTOCOL", "MAX_SAMPLES"} & set(names):
		        exec(compile(ast.Module([node], []), "worker", "exec"), space)
		s = ctypes.sizeof
		print(space["PROTOCOL"], s(space["Request"]), s(space["Answer"]), s(space["Hello"]),
		      space["Request"].gap_ms.offset, space["Answer"].threads.offset)
	END
	cmp "$BATS_TEST_TMPDIR/python" <("$BATS_TEST_TMPDIR/sizes")
}

@test "episodes: each candidate of this GPU is recognised, answered and compared" {
	tool nvcc
	taskgen -n 24 --ops rmsnorm --gpus h200 2>/dev/null | simulate --scenario pipeline | score | sed -n 1p >"$BATS_TEST_TMPDIR/episode"
	[[ -s $BATS_TEST_TMPDIR/episode ]] || skip "no such episode in the first tasks"
	status 0 answers --verify-only "$BATS_TEST_TMPDIR/episode"
	(($(wc -l <"$out") == $(jq '[.messages[] | select(.kind == "candidate")] | length' "$BATS_TEST_TMPDIR/episode")))
	# Ours, all of them: named by variant, parameters and fault.
	[[ $(jq -r .source "$out" | sort -u) == null ]]
	cmp <(jq -r '.messages[] | select(.kind == "candidate") | .candidate' "$BATS_TEST_TMPDIR/episode") <(jq -r .candidate "$out")
	grep -q '(measured)$' "$err"
	# Compile errors agree, word for word of the first line.
	cmp <(jq -r 'select(.status == "compile_error") | .compile.log | split("\n")[0]' "$out") \
		<(jq -r '.messages[] | select(.kind == "result" and .status == "compile_error") | .compile.log | split("\n")[0]' "$BATS_TEST_TMPDIR/episode")
}

@test "labels that nvcc alone can prove: what compiles where, and what each compile fault says" {
	tool nvcc
	status 1 answers --labels --ops rmsnorm --variants naive --deadline 2
	[[ $(jq -r 'select(.kind == "arch" or .kind == "compile") | .held' "$out" | sort -u) == yes ]]
	(($(jq -s 'map(select(.kind == "compile")) | length' "$out") >= 3))
	# The stand-in lets every fault pass: such labels do not hold.
	[[ $(jq -r 'select(.kind == "wrong") | .held' "$out" | sort -u) == no ]]
	cp "$out" "$BATS_TEST_TMPDIR/labels"
	status 1 bench --labels --list --gpu h200 --ops rmsnorm --variants naive --done "$BATS_TEST_TMPDIR/labels"
	none grep -E ' (arch|compile) ' "$out"
	grep -q ' rmsnorm/naive.cu wrong ' "$out"
}

@test "the committed labels cover every kernel file" {
	local labels=$ROOT/data/measured/labels_h200.jsonl
	[[ -e $labels ]] || skip "no data/measured/labels_h200.jsonl yet"
	status 0 bench --labels --list --gpu h200 --done "$labels"
	[[ ! -s $out ]]
}

@test "a sweep is the same configurations each time, all ops before the next shape, and goes on with --done" {
	tool nvcc
	status 0 answers --sweep --ops rmsnorm,kv_append --shapes 2 --configs 8
	cp "$out" "$BATS_TEST_TMPDIR/sweep"
	jq -e -s 'map(select(.process == 1) | .role) | unique == ["compile", "correct", "poor", "wrong"]' "$out"
	jq -e -s '(map(.op) | unique | length) == 2 and (map(.shape) | unique | length) == 4' "$out"
	jq -e -s 'any(.[]; .process == 2)' "$out"
	head -n 5 "$BATS_TEST_TMPDIR/sweep" >"$BATS_TEST_TMPDIR/part"
	status 0 answers --sweep --ops rmsnorm,kv_append --shapes 2 --configs 8 --done "$BATS_TEST_TMPDIR/part"
	cmp <(jq -c 'del(.provenance.date)' "$out" | sort) <(tail -n +6 "$BATS_TEST_TMPDIR/sweep" | jq -c 'del(.provenance.date)' | sort)
	status 0 answers --noise --from "$BATS_TEST_TMPDIR/sweep"
	jq -e -s 'map(.process) | unique == [1, 2, 3, 4, 5]' "$out"
	jq -e -s 'map(.gap_ms) | unique == [0, 50, 1000]' "$out"
	status 0 "$ROOT/src/etc/gpu_report.sh" /dev/null "$BATS_TEST_TMPDIR/sweep"
	grep -q '^| rmsnorm | ' "$out"
}

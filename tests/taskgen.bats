#!/usr/bin/env bats
# taskgen: which problem the n-th task is, and the whole of it in the row.
load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

@test "the n-th task is the same whatever range is asked for" {
	taskgen -n 200 >whole
	{ taskgen -n 80; taskgen --start 80 -n 1; taskgen --start 81 -n 119; } | cmp - whole
}

@test "another seed draws other tasks, of the same ops" {
	cmp <(taskgen -n 34 | jq -r .op) <(taskgen --seed 2 -n 34 | jq -r .op)
	[[ $(taskgen -n 34 | jq -c '[.gpu, .shape]' | sha256sum) != $(taskgen --seed 2 -n 34 | jq -c '[.gpu, .shape]' | sha256sum) ]]
	cmp <(taskgen --seed 0x10 -n 5) <(taskgen --seed 16 -n 5)
}

@test "a row carries the whole problem" {
	taskgen -n 120 >rows
	jq -e -n 'all(inputs; keys_unsorted == ["task_id", "index", "seed", "split", "op", "impl", "gpu", "arch", "dtype", "shape", "task"]
		and (.task | keys_unsorted == ["statement", "signature", "tolerance", "baseline_source", "gpu_facts"])
		and (.task.statement | length > 200) and (.seed | test("^[0-9a-f]{16}$"))
		and (.op as $op | .impl == "triton" or (.task.signature | contains($op + "(")))
		and (.impl as $i | .task.baseline_source | contains(if $i == "cuda" then "__global__" else "@triton.jit" end))
		and (.shape as $s | .task.signature as $sig | all($s | keys[]; . as $k | $sig | test("\\b" + $k + "\\b"))))' rows >/dev/null
}

@test "both impls and every dtype of an op come up" {
	[[ $(taskgen -n 1700 | jq -r '"\(.op) \(.impl)"' | sort -u | wc -l) == 18 ]]
	[[ $(taskgen -n 1700 | jq -r '"\(.op) \(.dtype)"' | sort -u | wc -l) == "$(space --list-kernels | jq -r '.op as $o | .dtypes[] | "\($o) \(.)"' | sort -u | wc -l)" ]]
}

@test "the hold-out: 512 tasks of three kinds, whatever the seed" {
	taskgen --split holdout -n 512 >held
	taskgen --split holdout -n 512 --seed 9 | cmp - held
	[[ $(jq -r .holdout held | sort | uniq -c | tr -s ' \n' ' ') == ' 128 pair_far 128 pair_near 256 shape ' ]]
	jq -e -n 'all(inputs; .baseline_ms > .floor_ms and .floor_ms > 0 and .split == "holdout")' held >/dev/null
	# No model dimension of a reserved shape is trained on, for three seeds.
	jq -r 'select(.holdout == "shape") | "\(.op) \(.shape | del(.B, .T, .M, .S, .L, .W))"' held | sort -u >reserved
	for seed in 1 2 3; do
		taskgen --seed $seed -n 2400 | jq -r '"\(.op) \(.shape | del(.B, .T, .M, .S, .L, .W))"' | sort -u >trained
		[[ -z $(comm -12 reserved trained) ]]
	done
	[[ -s reserved ]]
}

@test "only some ops and GPUs" {
	[[ $(taskgen -n 60 --ops rope,gemm_fp16 --gpus a100,h200 | jq -r '"\(.op) \(.gpu)"' | sort -u | tr '\n' ' ') == 'gemm_fp16 h200 rope a100 ' ]]
}

@test "a GPU asked for alone gets every op but those that it is reserved for" {
	[[ $(taskgen -n 34 --gpus h200 | jq -r .gpu | sort -u) == h200 ]]
	cmp <(taskgen -n 34 --gpus h200 | jq -r .op | sort -u) \
		<(comm -23 <(taskgen -n 17 | jq -r .op | sort -u) \
			<(taskgen --split holdout -n 512 | jq -r 'select(.gpu == "h200" and .holdout != "shape") | .op' | sort -u))
}

@test "what cannot be is a usage error" {
	status 2 taskgen --ops warp
	said "taskgen: --ops: unknown op 'warp'"
	status 2 taskgen --gpus h200,b300
	said "taskgen: --gpus: unknown GPU 'b300'"
	status 2 taskgen --ops rope --gpus h100,h200
	said "taskgen: every GPU asked for is reserved for 'rope'"
	status 2 taskgen --split holdout -n 513
	said 'taskgen: the hold-out has 512 tasks'
	status 2 taskgen --split holdout -n 1 --ops rope
	said 'taskgen: --ops and --gpus do not apply to the hold-out'
	status 2 taskgen -n -1
}

@test "golden rows: one task of each op" {
	status 0 taskgen -n 17
	jq -c 'del(.task.baseline_source)' "$out" >golden.jsonl
	out=golden.jsonl golden "$ROOT/tests/fixtures/tasks.jsonl"
}

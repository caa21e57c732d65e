#!/usr/bin/env bats
# space: a task's legal candidates, and the kernel files by themselves.
load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	taskgen -n 17 --gpus h200,a100 --seed 3 >tasks
}

@test "all of a task's candidates, each once, all of them legal" {
	head -n 2 tasks | space >all
	[[ $(sort -u all | wc -l) == "$(wc -l <all)" ]]
	simulate -c all | jq -e -n 'all(inputs; .status == "ok")' >/dev/null
	jq -e -n 'all(inputs; keys_unsorted == ["op", "impl", "gpu", "arch", "dtype", "shape", "variant", "params", "fault", "source"] and .fault == null and .source == null)' all >/dev/null
}

@test "a sample is a part of all, the same for a seed" {
	head -n 3 tasks | space >all
	head -n 3 tasks | space --sample 30 >some
	[[ $(wc -l <some) == 90 && $(sort -u some | wc -l) == 90 ]]
	[[ -z $(comm -13 <(sort all) <(sort some)) ]]
	head -n 3 tasks | space --sample 30 | cmp - some
	[[ $(head -n 3 tasks | space --sample 30 --seed 2 | sha256sum) != $(sha256sum <some) ]]
}

@test "only some variants" {
	[[ $(space --variants naive tasks | jq -r .variant | sort -u) == naive ]]
}

@test "every variant is in the space of some task" {
	taskgen -n 1700 | space --sample 40 | jq -r '"\(.op) \(.impl) \(.variant)"' | sort -u >seen
	space --list-kernels | jq -r '"\(.op) \(.impl) \(.variant)"' | sort -u >claimed
	diff claimed seen
}

@test "a rendered source shows its parameters, dtype and fault, and no marker" {
	space --render rmsnorm/naive >plain
	none grep -n '//!' plain
	grep -q '__half;' plain
	space --render rmsnorm/naive --dtype bf16 | grep -q '__nv_bfloat16;'
	[[ $(space --list-kernels | jq -s '[.[] | .faults | length] | min') -ge 3 ]]
	fault=$(space --list-kernels | jq -r 'select(.file == "rmsnorm/naive.cu").faults[0].name')
	space --render rmsnorm/naive --fault "$fault" >faulty
	[[ $(diff plain faulty | grep -c '^[<>]') -ge 1 ]]
}

@test "what does not exist is a usage error" {
	status 2 space --render rmsnorm
	said "space: --render: unknown op in 'rmsnorm'"
	status 2 space --render rmsnorm/warp_drive
	said "space: --render: rmsnorm has no cuda variant 'warp_drive'"
	status 2 space --render rmsnorm/naive --params flux=1
	said "space: --params: unknown parameter 'flux'"
	status 2 space --render rmsnorm/naive --fault gremlin
	said "space: --render: rmsnorm/naive has no fault 'gremlin'"
}

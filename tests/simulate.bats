#!/usr/bin/env bats
# simulate: episodes that hold together, and bare candidates.
load helper

setup_file() {
	taskgen -n 96 >"$BATS_FILE_TMPDIR/tasks"
	plan "$BATS_FILE_TMPDIR/tasks" | simulate >"$BATS_FILE_TMPDIR/raw"
	score "$BATS_FILE_TMPDIR/raw" >"$BATS_FILE_TMPDIR/scored"
}

setup() {
	tasks=$BATS_FILE_TMPDIR/tasks raw=$BATS_FILE_TMPDIR/raw scored=$BATS_FILE_TMPDIR/scored
	cd "$BATS_TEST_TMPDIR"
}

@test "a bare task is planned by the code of plan" {
	simulate "$tasks" | cmp - "$raw"
	cmp <(simulate --scenario campaign "$tasks") <(plan --scenario campaign "$tasks" | simulate)
}

@test "the referee accepts every episode, lint has nothing to say" {
	status 0 lint "$scored"
	[[ ! -s $out && ! -s $err ]]
}

@test "time, steps and scenario roles" {
	jq -e -n 'all(inputs; (.messages | map(.step) == [range(length)]) and (.messages | map(.t) | . == sort)
		and .messages[0].kind == "plan" and .messages[-1].kind == "verdict"
		and (.scenario == "pipeline") == any(.messages[]; .kind == "review"))' "$scored" >/dev/null
	jq -e -n 'all(inputs; .elapsed_s >= 3600 and .elapsed_s <= 18000)' "$scored" >/dev/null
}

@test "equal sources of one task have equal times" {
	jq -c '(INDEX(.messages[] | select(.kind == "candidate"); .candidate)) as $c
		| [.messages[] | select(.kind == "result" and .bench != null) | {s: $c[.candidate].source, ms: .bench.ms}]
		| group_by(.s)[] | select(length > 1) | map(.ms) | unique | length' "$scored" >sizes
	[[ -s sizes && $(sort -u sizes) == 1 ]]
}

@test "an agent hears of a failed review in its next candidate" {
	jq -e -n '[inputs | .messages as $m | $m[] | select(.kind == "review" and .verdict == "fail")
		| . as $r | first($m[] | select(.kind == "candidate" and .from == $r.to and .step > $r.step)) // empty
		| .parent == $r.candidate] | length > 3 and all' "$scored" >/dev/null
}

@test "the sources are what the kernel files render" {
	jq -r -n 'first(inputs | select(.impl == "cuda") | .op as $o | .dtype as $d | (.messages | map(select(.status == "improved"))[0].candidate) as $c
		| .messages[] | select(.kind == "candidate" and .candidate == $c)
		| ["\($o)/\(.variant) \($d) \(.params | to_entries | map("\(.key)=\(.value)") | join(","))", .source]) | .[]' "$scored" >found
	read -r variant dtype params <found
	space --render "$variant" --dtype "$dtype" --params "$params" >rendered
	# jq ends what it prints with a newline of its own.
	tail -n +2 found | head -c -1 | cmp - rendered
}

@test "a candidate gets its result: ours, mended, faulty, unsupported" {
	taskgen -n 1 --ops gemm_fp16 --gpus a100 >task
	space --faults "$tasks" 2>/dev/null | head -n 400 >cands || true
	space --faults task >cands
	simulate --candidates cands >results
	[[ $(wc -l <cands) == "$(wc -l <results)" ]]
	jq -e -n 'all(inputs; .env == "simulated" and (if .fault == null then .status == "ok" and .bench.ms > 0
		else (.status == "compile_error" or .status == "wrong_result") and .bench == null end)
		and (.status == "compile_error") == (.compile.log != null))' results >/dev/null
	[[ $(jq -r .status results | sort -u | wc -l) == 3 ]]
	head -n 1 cands | jq -c '.variant = "wgmma_tma" | .params = {}' | simulate -c | jq -e '.status == "unsupported_arch" and (.compile.log | contains("sm_80"))' >/dev/null
}

@test "the same candidates in another order have the same results" {
	space --sample 20 <(head -n 4 "$tasks") >cands
	cmp <(simulate -c cands | sort) <(sort -R --random-source=<(yes) cands | simulate -c | sort)
}

@test "a candidate that is none is a bad row" {
	space --sample 1 <(head -n 1 "$tasks") >one
	jq -c '.source = "int main(void) {}"' one >bad
	status 1 simulate -c bad
	said "simulate: bad:1: field 'source' is somebody's own: only bench can answer for it"
	jq -c '.variant = "warp_drive"' one >bad
	status 1 simulate -c bad
	said "simulate: bad:1: unknown variant 'warp_drive'"
	jq -c '.fault = "gremlin"' one >bad
	status 1 simulate -c bad
	said "simulate: bad:1: unknown fault 'gremlin'"
	jq -c '.params.flux = 1' one >bad
	status 1 simulate -c bad
	said "simulate: bad:1: unknown parameter 'flux'"
	jq -c '.params |= map_values(12345)' one >bad
	status 1 simulate -c bad
	grep -q "cannot be '12345'" "$err"
	status 2 simulate -c --scenario campaign
}

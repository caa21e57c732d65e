#!/usr/bin/env bats
# reward: pays the scheme asked for, nothing else.
load helper

setup_file() {
	stage score 48 >"$BATS_FILE_TMPDIR/scored"
}

setup() {
	scored=$BATS_FILE_TMPDIR/scored
	cd "$BATS_TEST_TMPDIR"
}

@test "the standard scheme changes no byte of a finished file" {
	reward "$scored" | cmp - "$scored"
	reward --scheme standard "$scored" | cmp - "$scored"
	reward --weight clip=1 "$scored" | cmp - "$scored"
}

@test "another scheme changes rewards, returns and scheme alone; and back it is the same file" {
	local s
	for s in team ladder light; do
		reward --scheme $s "$scored" >other
		jq -c 'del(.scheme, .return, .agents[].return, .messages[].reward)' other >a
		jq -c 'del(.scheme, .return, .agents[].return, .messages[].reward)' "$scored" >b
		cmp a b
		[[ $(jq -r .scheme other | sort -u) == "$s" ]]
		reward other | cmp - "$scored"
		score other | cmp - "$scored"
	done
}

@test "team: the rewards telescope to log2(speedup) / 4, the verdict gets 0" {
	reward --scheme team "$scored" | jq -e -n 'all(inputs;
		((.return - (.speedup | log2) / 4) | fabs) < 1e-6 and .messages[-1].reward == 0 and
		([.messages[].reward // 0] | min) >= 0)' >/dev/null
}

@test "light: within 0 and 1, a half at the baseline" {
	reward --scheme light "$scored" | jq -e -n 'all(inputs; .baseline_ms as $b
		| [.messages[] | select(.kind == "result" and .bench)] | all(.reward > 0 and .reward <= 1 and (.reward >= 0.5) == (.bench.ms <= $b)))' >/dev/null
}

@test "ladder: 0.3 for being right, and the speedup" {
	reward --scheme ladder "$scored" | jq -e -n 'all(inputs; .baseline_ms as $b
		| .messages[] | select(.kind == "result")
		| if .bench then (.reward - 0.3 - $b / .bench.ms | fabs) < 1e-6 * .reward else .reward == 0 end)' >/dev/null
}

@test "every constant of a scheme can be set; the row says so" {
	reward --weight clip=0.5,wrong_result=-1 -w compile_error=-0.25 "$scored" >w
	[[ $(jq -r .scheme w | sort -u) == "standard:clip=0.5,compile_error=-0.25,wrong_result=-1" ]]
	jq -e -n 'all(inputs; [.messages[] | select(.kind == "result")] |
		all(.reward <= 0.5 and (.status != "wrong_result" or .reward == -1) and (.status != "compile_error" or .reward == -0.25)))' w >/dev/null
	# The text is a scheme again.
	reward --scheme "standard:clip=0.5,compile_error=-0.25,wrong_result=-1" "$scored" | cmp - w
	status 0 lint w
	local scheme key
	reward --list | awk '/^[a-z]/ { s = $1 } / weights / { print s, $2 }' >schemes
	(($(wc -l <schemes) >= 4))
	while read -r scheme keys; do
		for key in $(tr , '\n' <<<"$keys" | cut -d= -f1); do
			reward --scheme "$scheme" --weight "$key=0.125" "$scored" >one
			[[ $(jq -r .scheme one | sort -u) == "$scheme:$key=0.125" ]] || fail "$scheme $key"
		done
	done <schemes
}

@test "the returns are the sums of what is printed" {
	local s
	for s in standard team ladder light; do
		reward --scheme $s "$scored" | jq -e -n 'all(inputs; . as $e
			| all(.agents[]; . as $a | ([$e.messages[] | select(.kind == "result" and .to == $a.id) | .reward // 0] | add // 0) - $a.return | fabs < 1e-7 * (1 + ($a.return | fabs)))
			and (([.agents[].return, .messages[-1].reward] | add) - .return | fabs) < 1e-7 * (1 + (.return | fabs))) ' >/dev/null || fail "$s"
	done
}

@test "rows that are not scored are refused" {
	stage simulate 1 >raw
	status 1 reward raw
	[[ ! -s $out ]]
	grep -qE "^reward: raw:1: row is not scored: messages\[[0-9]+\] has null where score fills$" "$err" || fail "$(cat "$err")"
}

@test "a speedup that cannot be is refused" {
	head -n 1 "$scored" | jq -c '.messages[-1].speedup = 0' >bad
	status 1 reward bad
	grep -qE "^reward: bad:1: field 'messages\[[0-9]+\].speedup' is out of range$" "$err"
}

@test "usage" {
	status 2 reward --scheme pocket "$scored"
	said "reward: --scheme: unknown scheme 'pocket'"
	status 2 reward --weight clip "$scored"
	said "reward: --weight: weight is not KEY=VALUE 'clip'"
	status 2 reward --weight speed=1 "$scored"
	said "reward: --weight: unknown weight 'speed=1'"
	status 2 reward --scheme team --weight clip=1 "$scored"
	said "reward: --weight: the scheme has no such weight 'clip=1'"
	status 2 reward --weight clip=x "$scored"
	said "reward: --weight: weight is no number 'clip=x'"
	status 0 reward --list </dev/null
	[[ $(grep -c '^  source' "$out") == $(grep -c '^[a-z]' "$out") ]]
}

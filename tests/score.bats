#!/usr/bin/env bats
# score: derives from raw results alone, and believes nothing else.
load helper

setup_file() {
	stage simulate 96 >"$BATS_FILE_TMPDIR/raw"
	score "$BATS_FILE_TMPDIR/raw" >"$BATS_FILE_TMPDIR/scored"
}

setup() {
	raw=$BATS_FILE_TMPDIR/raw scored=$BATS_FILE_TMPDIR/scored
	cd "$BATS_TEST_TMPDIR"
}

# refuses MESSAGE JQ: score says MESSAGE of the first scored row that the jq
# program can change, and prints nothing.
refuses() {
	jq -n -c -L "$ROOT/tests" "include \"lint\"; first(inputs | $2)" "$scored" >bad
	[[ -s bad ]] || fail "no row can be changed by: $2"
	status 1 score bad
	[[ ! -s $out ]] || fail "a refused row is printed"
	grep -qE "^score: bad:1: $1\$" "$err" || fail "wanted: $1"$'\n'"got:    $(cat "$err")"
}

@test "an independent jq program of some 30 lines finds the same numbers" {
	jq -r -f "$ROOT/tests/oracle.jq" "$scored" >differs
	[[ ! -s differs ]] || fail "$(head -n 5 differs)"
	# The oracle can tell: the raw rows are full of nulls.
	[[ -n $(head -n 1 "$raw" | jq -r -f "$ROOT/tests/oracle.jq") ]]
}

@test "scoring a scored row changes no byte" {
	score "$scored" | cmp - "$scored"
}

@test "only values that were null, or ok, have changed" {
	jq -c '[paths(scalars) as $p | select(getpath($p) != null and getpath($p) != "ok") | [$p, getpath($p)]]' <(head -n 12 "$raw") >before
	jq -c -n --slurpfile b before 'foreach inputs as $row (-1; . + 1; . as $i | [$b[$i][] | [.[0], .[0] as $p | ($row | getpath($p))]])' <(head -n 12 "$scored") >after
	cmp before after
	[[ $(jq -c 'keys_unsorted' "$raw" | sort -u) == "$(jq -c 'keys_unsorted' "$scored" | sort -u)" ]]
}

@test "no raw value is left" {
	jq -e -n 'all(inputs; .scheme == "standard" and (.messages | all(.status != "ok"))
		and ([.best_ms, .speedup, .elapsed_s, .return, (.agents[] | .tries, .kept, .return)] | all(. != null)))' "$scored" >/dev/null
}

@test "unknown keys keep their place and value" {
	jq -c '{note: [1, "x"]} + . | .messages[3].mine = {a: 1} | .agents[0].color = "red"' <(head -n 5 "$raw") >noted
	score noted >out
	jq -e -n 'all(inputs; .note == [1, "x"] and keys_unsorted[0] == "note" and .messages[3].mine == {a: 1} and .agents[0].color == "red")' out >/dev/null
}

@test "a false claim is refused by name" {
	refuses "field 'messages\[[0-9]+\].best_ms' is 123, not [0-9.e-]+" 'msg(.kind == "status" and .best_ms; .best_ms = 123)'
	refuses "field 'messages\[[0-9]+\].best_ms' is [0-9.e-]+, not [0-9.e-]+" 'msg(.kind == "merge"; .best_ms *= 2)'
	refuses "field 'messages\[[0-9]+\].agent' is not the author, a[0-9]+: 'a99'" 'msg(.kind == "merge"; .agent = "a99")'
	refuses "field 'messages\[[0-9]+\].best_ms' is [0-9.e-]+, not [0-9.e-]+" 'msg(.kind == "redirect" and .candidate; .best_ms *= 2)'
	refuses "field 'messages\[[0-9]+\].best_ms' is [0-9.e-]+, not [0-9.e-]+" 'msg(.kind == "handoff" and .best_ms; .best_ms *= 2)'
	refuses "field 'messages\[[0-9]+\].entries\[0\]' is not rank 1, agent a[0-9]+, candidate c[0-9]+, best_ms [0-9.e-]+" 'msg(.kind == "leaderboard"; .entries[0].best_ms *= 2)'
	refuses "field 'messages\[[0-9]+\].entries' has [0-9]+ items, but [0-9]+ agents have a time" 'msg(.kind == "leaderboard"; .entries |= .[1:])'
	refuses "field 'messages\[[0-9]+\].verdict' is not the result's, pass: 'fail'" 'msg(.kind == "verify" and .verdict == "pass"; .verdict = "fail")'
	refuses "field 'messages\[[0-9]+\].best_ms' is [0-9.e-]+, not [0-9.e-]+" 'msg(.kind == "verdict"; .best_ms *= 2)'
	refuses "field 'messages\[[0-9]+\].candidate' is null, yet the baseline is not the best" 'msg(.kind == "verdict" and .candidate; .candidate = null)'
	refuses "field 'messages\[[0-9]+\].candidate' has not been sent: 'c900'" 'msg(.kind == "result"; .candidate = "c900")'
	refuses "field 'messages\[[0-9]+\].status' is not what compile, verify and bench show: 'compile_error'" 'msg(.status == "improved"; .status = "compile_error")'
	refuses "field 'messages\[[0-9]+\].reward' is 0.9, not [0-9.e-]+" 'msg(.kind == "result"; .reward = 0.9)'
	refuses "field 'messages' does not end with the verdict" '.messages |= .[:-2] + .[-1:] + .[-2:-1]'
	refuses "field 'messages' has not one verdict, but 0" '.messages |= .[:-1]'
	refuses "field 'scheme' is none of ours \(unknown scheme\): 'pocket money'" '.scheme = "pocket money"'
}

@test "a bad field is named with its path" {
	refuses "field 'messages\[12\].bench.ms' is no number" 'select(.messages[12].bench) | .messages[12].bench.ms = "x"'
	refuses "missing field 'messages\[3\].t'" 'del(.messages[3].t)'
	refuses "field 'gpu' is no known gpu: 'h300'" '.gpu = "h300"'
	refuses "field 'op' is no known op: 'x'" '.op = "x"'
	refuses "field 'arch' is not the sm_[0-9a]+ of [a-z0-9_]+: 'sm_1'" '.arch = "sm_1"'
	refuses "missing field 'shape.[A-Z]+'" 'del(.shape[.shape | keys[0]])'
	refuses "field 'shape' is impossible for [a-z0-9_]+: .*" '.shape[.shape | keys[0]] = 0'
	refuses "field 'shape' takes more than 60 % of the memory of a10" 'select(.op == "rmsnorm") | .gpu = "a10" | .arch = "sm_86" | .shape.T = (4294967296 / .shape.D | floor) - 1'
	refuses "field 'baseline_ms' is out of range" '.baseline_ms = 1e300'
	refuses "field 'messages\[2\].kind' is no kind of message: 'song'" '.messages[2].kind = "song"'
	refuses "field 'n_agents' is not the number of agents, [0-9]+" 'select(.scenario == "campaign") | .agents |= .[1:]'
	refuses "field 'scenario' is no known scenario: 'party'" '.scenario = "party"'
}

# Everything that a scored row claims, falsified one at a time in a row of each
# scenario: score refuses the row or lint objects to it.
@test "each claim falsified once: score or lint objects" {
	cat >claims.jq <<-'END'
		def lie:
			if type == "boolean" then not
			elif type == "null" then 0.5
			elif type == "number" then if . == floor then . + 1 else . * 2 end
			elif test("^c[0-9]+$") then if . == "c001" then "c002" else "c001" end
			elif test("^a[0-9]+$") then if . == "a01" then "a02" else "a01" end
			elif . == "pass" then "fail" elif . == "fail" then "pass"
			else . + "x" end;
		def claims:
			(["episode_id"], ["n_agents"], ["best_ms"], ["speedup"], ["elapsed_s"], ["num_messages"], ["scheme"], ["return"]),
			(range(.agents | length) as $i | ("tries", "kept", "best_ms", "return") | ["agents", $i, .]),
			(.messages | to_entries[] | .key as $i | .value
				| if .kind == "result" then "candidate", "status", "prev_best_ms", "kept", "reward"
				elif .kind == "status" then "best_ms"
				elif .kind == "verify" then "candidate", "verdict"
				elif .kind == "merge" then "candidate", "agent", "best_ms"
				elif .kind == "redirect" then "best_ms"
				elif .kind == "handoff" then "best_ms"
				elif .kind == "verdict" then "candidate", "best_ms", "speedup", "reward"
				elif .kind == "leaderboard" then (range(.entries | length) as $k | ("rank", "agent", "candidate", "best_ms") | ["entries", $k, .])
				else empty end
				| ["messages", $i] + if type == "array" then . else [.] end);
		. as $row | [claims] | unique[] as $p | $row | setpath($p; getpath($p) | lie)
	END
	local s n=0
	for s in dispatch parallel_sweep pipeline campaign; do
		jq -n -c "first(inputs | select(.scenario == \"$s\" and .best_ms < .baseline_ms and (.messages | length < 90)))" "$scored" >row
		[[ -s row ]] || fail "no row of $s"
		jq -c -f claims.jq row >false
		score --keep-going --rejects rejected false >believed 2>refused || true
		cut -d: -f3 refused | sort -un >refused.lines
		lint false >objections || true
		cut -d: -f2 objections | sort -un >objected.lines
		seq "$(wc -l <false)" | sort >all
		sort -u refused.lines objected.lines | comm -13 - all >missed
		[[ ! -s missed ]] || fail "$s: nobody objects to $(while read -r k; do diff <(jq -c 'paths(scalars) as $p | [$p, getpath($p)]' row) <(sed -n "${k}p" false | jq -c 'paths(scalars) as $p | [$p, getpath($p)]') | grep '^>'; done <missed | head -n 3)"
		n=$((n + $(wc -l <all)))
	done
	((n > 200)) || fail "only $n claims"
}

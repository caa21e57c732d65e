#!/usr/bin/env bats
# lint: silent on good rows; each rule broken once, and named.
load helper

setup_file() {
	# The last test counts what those before it have done.
	export BATS_NO_PARALLELIZE_WITHIN_FILE=true
	stage reward 120 >"$BATS_FILE_TMPDIR/good"
	taskgen --split holdout -n 40 >"$BATS_FILE_TMPDIR/holdout"
}

setup() {
	good=$BATS_FILE_TMPDIR/good
	cd "$BATS_TEST_TMPDIR"
}

# breaks RULE JQ [FILE]: the first good row that the jq program can break breaks
# RULE (and perhaps others, of which RULE is told).
breaks() {
	jq -n -c -L "$ROOT/tests" "include \"lint\"; first(inputs | $2)" "${3-$good}" >bad
	[[ -s bad ]] || { echo "$1: no row can be broken by: $2" && return 1; }
	status 1 lint bad || return 1
	[[ ! -s $err ]] || { cat "$err" && return 1; }
	grep -qE "^bad:1: .*\[$1\]$" "$out" ||
		{ echo "$1: not told of: $2" && cut -c 1-200 "$out" | head -n 5 && return 1; }
	echo "$1" >>"$BATS_FILE_TMPDIR/broken"
}

# Each line: RULE, a tab or blanks, a jq program.
break_all() {
	local rule program bad=0
	while read -r rule program; do
		[[ $rule ]] || continue
		breaks "$rule" "$program" || bad=1
	done
	((bad == 0))
}

@test "good rows: nothing is said, with and without the census" {
	status 0 lint --census "$good"
	[[ ! -s $out && ! -s $err ]] || fail "$(head -n 5 "$out")"
	status 0 lint "$BATS_FILE_TMPDIR/holdout" "$good"
	[[ ! -s $out && ! -s $err ]] || fail "$(head -n 5 "$out")"
}

@test "jq between them changes nothing for lint: what follows is what was broken" {
	jq -c . "$good" "$BATS_FILE_TMPDIR/holdout" >through
	status 0 lint through
	[[ ! -s $out ]] || fail "$(head -n 5 "$out")"
}

@test "other schemes and weights are linted by themselves" {
	local s
	for s in team ladder light standard:clip=2 team:wrong_result=-1,compile_error=-0.5; do
		reward --scheme "$s" "$good" >"$s"
		status 0 lint "$s"
	done
}

@test "the row's form" {
	break_all <<-'END'
		missing-key    del(.messages[3].t)
		missing-key    del(.task.gpu_facts)
		type           .messages[3].t = "x"
		type           .messages[0].budget.tries = 1.5
		type           .shape[(.shape | keys)[0]] = "1"
		value          .gpu = "h300"
		value          .arch = "sm_89"
		value          .shape[(.shape | keys)[0]] = 0
		value          .baseline_ms = -1
		value          .task.gpu_facts.sms = 1
		unknown-key    .messages[2].note = 1
		unknown-key    .note = 1
		unknown-key    msg(.kind == "result" and .bench; .bench.power = 300)
		key-order      .messages[2] |= {t} + .
		key-order      {index} + .
		word           msg(.kind == "result"; .compile.status = "fine")
		word           .env = "dreamt"
		word           .messages[1].role = "boss"
		digits         .baseline_ms = 12345.6789
		digits         msg(.kind == "result" and .bench; .bench.cv = 0.01234567891)
		digits         .agents[0].skill = 0.12345678901
		episode-id     .episode_id += "x"
		episode-id     .index += 1
		task-id        .task_id = "train_1"
		task-id        .index += 1
		count          .num_messages += 1
		version        .version = "new"
		unscored       .return = null
		unscored       .agents[0].kept = null
		unscored       msg(.kind == "result"; .prev_best_ms = null)
		unscored       msg(.kind == "verdict"; .speedup = null)
		unscored       msg(.status == "improved"; .status = "ok")
	END
}

@test "who speaks when" {
	break_all <<-'END'
		step            .messages[4].step = 9
		time-back       .messages[-1].t = 1
		agent-id        .agents[0].id = "b01"
		undeclared      .messages[3].to = "a77"
		undeclared      msg(.kind == "candidate"; .from = "a77")
		undeclared      .messages[0].assignments[0].agent = "a77"
		role            .messages[0].role = "env"
		role            msg(.kind == "status"; .to = "env")
		role            msg(.kind == "merge"; .to = "a01")
		role            msg(.kind == "review"; .from = "a01" | .role = "proposer")
		scenario-roles  select(.scenario == "pipeline") | .agents[0].role = "tuner"
		scenario-roles  select(.scenario == "campaign") | .agents[-1].role = "worker"
		scenario-roles  select(.scenario == "dispatch") | .agents[0].role = "verifier"
		value           select(.scenario == "dispatch") | .scenario = "campaign"
		plan            .messages |= .[1:2] + .[0:1] + .[2:] | renumber
		plan            .messages |= .[1:] | renumber
		verdict-last    .messages |= .[:-1] | renumber
		verdict-last    .messages |= .[:-2] + .[-1:] + .[-2:-1] | renumber
		skill           .agents[0].skill = 1.5
		budget          .messages[0].budget.tries = 1
		budget          .messages[0].budget.deadline_s = 10
		budget          msg(.kind == "dispatch"; .tries = 0)
	END
}

@test "a candidate's life" {
	break_all <<-'END'
		candidate-id     msg(.kind == "candidate"; .candidate = "c900")
		no-result        at(.kind == "result") as $i | .messages |= .[:$i] + .[$i + 1:] | renumber
		no-result        msg(.kind == "result" and .to != "a01"; .to = "a01")
		second-result    at(.kind == "result") as $i | .messages |= .[:$i] + [.[$i]] + .[$i:] | renumber
		no-candidate     msg(.kind == "result"; .candidate = "c900")
		no-candidate     msg(.kind == "verify"; .candidate = "c900")
		parent           msg(.kind == "candidate" and .parent; .parent = "c900")
		parent           msg(.kind == "candidate"; .parent = .candidate)
		reviewed-parent  at(.kind == "review" and .verdict == "fail") as $i | select($i) | .messages[$i].to as $a | at(.kind == "candidate" and .from == $a and .step > $i) as $j | select($j) | .messages[$j].parent = null
		review-order     at(.kind == "review") as $i | select($i) | .messages[$i] as $m | at(.kind == "result" and .candidate == $m.candidate) as $j | .messages |= .[:$i] + .[$i + 1:$j + 1] + [$m] + .[$j + 1:] | renumber
		verify-order     author(.messages[at(.kind == "verify") | values].candidate) as $a | msg(.kind == "verify"; .from = $a)
		verify-order     at(.kind == "verify") as $i | select($i) | .messages[$i] as $m | at(.kind == "result" and .candidate == $m.candidate) as $j | .messages |= .[:$j] + [$m] + .[$j:$i] + .[$i + 1:] | renumber
		verify-truth     msg(.kind == "verify"; .verdict = if .verdict == "pass" then "fail" else "pass" end)
		resubmitted      at(.kind == "candidate" and .parent) as $i | select($i) | .messages[$i].source = source(.messages[$i].parent)
		params           msg(.kind == "candidate"; .params.zzz = 1)
		params           msg(.kind == "candidate"; .params[(.params | keys)[0]] = 77777)
		params           msg(.kind == "dispatch" and .region != {}; .region[(.region | keys)[0]] = [77777])
		params           msg(.kind == "dispatch"; .variant = "magic")
	END
}

@test "what env says" {
	break_all <<-'END'
		outcome        msg(.status == "improved"; .status = "compile_error")
		outcome        msg(.status == "wrong_result"; .verify.status = "pass")
		outcome        msg(.status == "compile_error"; .compile.status = "ok")
		measured-only  msg(.kind == "result" and .bench; .bench.limiter = null)
		measured-only  msg(.status == "wrong_result"; .status = "crashed")
		rate           msg(.kind == "result" and .bench; .bench.gbps *= 1.01)
		rate           msg(.kind == "result" and (.bench.tflops // 0) > 0; .bench.tflops *= 1.01)
		peak           msg(.kind == "result" and .bench; .bench.ms = 1e-06)
		peak           .baseline_ms = 1e-06
		peak           msg(.kind == "verify" and .ms; .ms = 1e-06)
		range          msg(.kind == "result" and .bench; .bench.cv = 2)
		range          msg(.kind == "result" and .bench; .bench.occupancy = 0)
		range          msg(.kind == "result" and .bench; .compile.registers = 300)
		range          msg(.kind == "result" and .bench; .compile.registers = null)
		range          msg(.status == "compile_error"; .compile.log = null)
		range          msg(.status == "wrong_result"; .verify.reason = null)
		range          msg(.kind == "result" and .verify; .verify.max_abs_err = -1)
		range          msg(.kind == "verify"; .trials = 0)
		same-ms        [.messages[] | select(.kind == "result" and .bench)] as $r | select($r | length > 1) | source($r[0].candidate) as $s | msg(.kind == "candidate" and .candidate == $r[1].candidate; .source = $s)
	END
}

@test "what is claimed" {
	break_all <<-'END'
		status-best  msg(.kind == "status"; .best_ms = 123)
		status-best  msg(.kind == "status" and .best_ms; .best_ms = null)
		leaderboard  msg(.kind == "leaderboard"; .entries[0].best_ms *= 2)
		leaderboard  msg(.kind == "leaderboard"; .entries[0].rank = 2)
		leaderboard  msg(.kind == "leaderboard" and (.entries | length > 1); .entries |= .[1:])
		leaderboard  msg(.kind == "leaderboard" and (.entries | length > 1); .entries |= reverse)
		merge        msg(.kind == "merge"; .best_ms *= 2)
		merge        msg(.kind == "merge"; .agent = if .agent == "a01" then "a02" else "a01" end)
		redirect     msg(.kind == "redirect" and .candidate; .best_ms *= 2)
		redirect     msg(.kind == "redirect" and .candidate; .candidate = null)
		handoff      msg(.kind == "handoff" and .best_ms; .best_ms *= 2)
		handoff      msg(.kind == "handoff" and (.best_ms | not); .best_ms = 1)
		handoff      msg(.kind == "handoff" and .best_ms; .best_ms = null)
		unseen       .messages |= map(select(.kind != "leaderboard" and .kind != "status" and .kind != "verify")) | select(at(.kind == "merge")) | renumber
		verdict      msg(.kind == "verdict"; .best_ms *= 2)
		verdict      msg(.kind == "verdict" and .candidate; .candidate = null)
		verdict      msg(.kind == "verdict"; .speedup += 1)
		derived      .best_ms *= 2
		derived      .speedup += 1
		derived      .elapsed_s += 1
		derived      .agents[0].tries += 1
		derived      .agents[0].kept += 1
		derived      .agents[0].best_ms = 123
		derived      msg(.kind == "result"; .prev_best_ms *= 2)
		derived      msg(.kind == "result"; .kept |= not)
		scheme       .scheme = "pocket money"
		scheme       .scheme = "standard:speed=1"
		reward       msg(.kind == "result"; .reward = 0.9)
		reward       msg(.kind == "verdict"; .reward += 1)
		reward       .return += 1
		reward       .agents[0].return += 1
		reward       .scheme = "team"
	END
}

@test "words" {
	break_all <<-'END'
		empty-text      msg(.kind == "status"; .text = "")
		text-candidate  msg(.kind == "status"; .text += " As c900 shows.")
		text-candidate  .messages[0].text += " (c001)"
		text-ms         msg(.kind == "status"; .text += " 9.87654 ms")
		text-ms         .messages[-1].best_ms as $ms | .messages[0].text += " or \($ms) ms"
		text-ms         msg(.kind == "dispatch"; .subtask += " below 1e-05 ms")
		source-word     msg(.kind == "candidate"; .source += "/* mends a bug */")
		source-word     msg(.kind == "candidate"; .source += "int Wrong_answer;")
		source-op       msg(.kind == "candidate"; .source = "int x;")
	END
	# Words that only contain such a word are none.
	jq -n -c -L "$ROOT/tests" 'include "lint"; first(inputs | msg(.kind == "candidate"; .source += "/* default, debug, faulty_x0 */"))' "$good" >fine
	status 0 lint fine
}

@test "the hold-out" {
	break_all <<-'END'
		reserved  select(.op == "rope") | .gpu = "h100" | .arch = "sm_90a"
		word      .split = "holdout"
	END
	breaks reserved '.holdout = if .holdout == "shape" then "pair_near" else "shape" end' "$BATS_FILE_TMPDIR/holdout"
	breaks floor '.floor_ms *= 2' "$BATS_FILE_TMPDIR/holdout"
	breaks peak '.baseline_ms = .floor_ms / 2' "$BATS_FILE_TMPDIR/holdout"
	breaks missing-key 'del(.floor_ms)' "$BATS_FILE_TMPDIR/holdout"
	breaks type '.baseline_ms = null' "$BATS_FILE_TMPDIR/holdout"
	breaks word '.split = "train"' "$BATS_FILE_TMPDIR/holdout"
	taskgen -n 1 >task
	status 1 lint task
}

# census RULE [OPTION]: lint --census of the file `set` names the rule.
census() {
	local rule=$1
	shift
	status 1 lint --census "$@" ./set
	grep -qE "^census: .*\[$rule\]$" "$out" || fail "$rule: $(grep ^census "$out" | head -n 5)"
	echo "$rule" >>"$BATS_FILE_TMPDIR/broken"
}

@test "the whole set" {
	{ cat "$good"; head -n 1 "$good"; } >./set
	census duplicate
	sed 7d "$good" >./set
	census gap
	status 0 lint ./set
	# One op's rows move behind all others.
	jq -s -c '.[0].op as $op | [.[] | select(.op != $op)] + [.[] | select(.op == $op)] | to_entries[] | .value.index = .key | .value' "$good" >./set
	census window-ops
	{ head -n 5 "$good"; sed -n 7p "$good" | jq -c '.index = 5'; tail -n +7 "$good"; } >./set
	census block-pairs
	jq -s -c '(map(select(.scenario == "pipeline")) + map(select(.scenario != "pipeline"))[:18])[]' "$good" >./set
	census shares
	cp "$good" ./set
	census default --default
	grep -q '^census: rows: is 120, not 2400 to 2400 \[default\]$' "$out"
}

@test "a set of one op or one scenario is no lack of coverage" {
	taskgen -n 30 --ops rmsnorm,rope | plan --scenario dispatch | simulate | score | reward >./set
	status 0 lint --census ./set
	[[ ! -s $out ]] || fail "$(head -n 3 "$out")"
}

@test "every violation of a row is told, not the first alone" {
	jq -n -c 'first(inputs) | .num_messages += 1 | .return += 1 | .messages[2].step = 7 | .messages[-1].text = "won in 77 ms" | .episode_id = "x"' "$good" >bad
	status 1 lint bad
	local rule
	for rule in count reward step text-ms episode-id; do
		grep -q "\[$rule\]" "$out" || fail "$rule is not told"
	done
	jq -n -c 'first(inputs) | .agents[0].skill = "x" | .messages[1].t = null | .messages[2].step = "2" | del(.seed)' "$good" >bad
	status 1 lint bad
	(($(wc -l <"$out") == 4)) || fail "$(cat "$out")"
}

@test "the form of a violation: file, line, path, what, rule" {
	{ head -n 2 "$good"; sed -n 3p "$good" | jq -c '.num_messages = 1'; } >bad
	status 1 lint bad
	[[ $(cat "$out") == "bad:3: num_messages: is 1, not $(sed -n 3p "$good" | jq '.messages | length') [count]" ]] || fail "$(cat "$out")"
	status 1 lint <bad
	grep -q '^-:3: num_messages: ' "$out"
}

@test "--schema declares every key of the rows, and each once" {
	tool python3
	/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "no python3-yaml on this machine"
	lint --schema episodes >episodes.yaml
	lint --schema holdout >holdout.yaml
	/usr/bin/python3 - "$good" episodes.yaml "$BATS_FILE_TMPDIR/holdout" holdout.yaml <<-'END'
		import json, sys, yaml

		def check(value, feature, path):
		    if value is None:
		        return
		    if "struct" in feature:
		        fields = {f["name"]: f for f in feature["struct"]}
		        assert len(fields) == len(feature["struct"]), path
		        assert isinstance(value, dict), path
		        for k, v in value.items():
		            check(v, fields[k], path + "." + k)
		    elif "list" in feature:
		        for v in value:
		            check(v, {"struct": feature["list"]}, path + "[]")
		    elif "sequence" in feature:
		        assert feature["sequence"] == "int64" and all(type(v) is int for v in value), path
		    else:
		        kind = {"string": str, "int64": int, "bool": bool, "float64": (int, float)}
		        assert isinstance(value, kind[feature["dtype"]]), (path, value)
		        assert feature["dtype"] == "bool" or type(value) is not bool, path

		for rows, features in (sys.argv[1:3], sys.argv[3:5]):
		    f = {"struct": yaml.safe_load(open(features))}
		    for line in open(rows):
		        check(json.loads(line), f, "")
	END
}

@test "usage" {
	status 2 lint --schema nothing
	said "lint: --schema: no config of ours 'nothing'"
	status 2 lint --default "$good"
	said "lint: --default needs --census"
}

# Last: it reads what the tests above have broken.
@test "every rule has been broken above" {
	lint --rules | awk '{ print $1 }' | sort >rules
	sort -u "$BATS_FILE_TMPDIR/broken" >broken
	diff broken rules
}

#!/usr/bin/env bats
# plan: scenario, agents, assignments.
load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

@test "scenarios come in turn, one for each run of GPUs" {
	taskgen -n 48 | plan >rows
	[[ $(jq -r .scenario rows | uniq -c | tr -s ' \n' ' ') == ' 6 '*' 6 '*' 6 '*' 6 '* ]]
	# Each run of 24 holds every (gpu, scenario) pair.
	for k in 1 25; do
		[[ $(tail -n +$k rows | head -n 24 | jq -r '"\(.gpu) \(.scenario)"' | sort -u | wc -l) == 24 ]]
	done
}

@test "one scenario for all" {
	[[ $(taskgen -n 20 | plan --scenario pipeline | jq -r .scenario | sort -u) == pipeline ]]
	status 2 plan --scenario relay
	said "plan: --scenario: unknown scenario 'relay'"
}

@test "teams are as large as their scenario allows, and its roles are filled" {
	taskgen -n 600 | plan >rows
	[[ $(jq -r '"\(.scenario) \(.n_agents)"' rows | sort -u | sort -k1,1 -k2,2n | awk '{ if (!($1 in lo)) lo[$1] = $2; hi[$1] = $2 } END { for (s in lo) print s, lo[s], hi[s] }' | sort | tr '\n' ' ') == 'campaign 5 20 dispatch 2 8 parallel_sweep 4 20 pipeline 3 6 ' ]]
	jq -e -n 'all(inputs; .n_agents == (.agents | length) and (.agents | map(.id) == [range(length) + 1 | if . < 10 then "a0\(.)" else "a\(.)" end])
		and all(.agents[]; .skill > 0 and .skill < 1)
		and (if .scenario == "pipeline" then (.agents | map(.role) | .[:3] == ["proposer", "reviewer", "verifier"])
			elif .scenario == "campaign" then .agents[-1].role == "verifier" else all(.agents[]; .role == "worker") end)
		and (.assignments | length > 0) and (.agents as $a | all(.assignments[]; .agent as $id | any($a[]; .id == $id and (.role == "worker" or .role == "proposer")))))' rows >/dev/null
}

@test "a lead assigns nothing that the GPU lacks" {
	space --list-kernels | jq -s -c 'map({key: "\(.op)/\(.impl)/\(.variant)", value: .needs}) | from_entries' >needs
	taskgen -n 600 --gpus a100,a10 | plan | jq -e -n --slurpfile needs needs 'all(inputs; .op as $o | .impl as $i
		| all(.assignments[]; $needs[0]["\($o)/\($i)/\(.variant)"] - ["cp_async"] == []))' >/dev/null
}

@test "unknown keys keep their place, planning again changes nothing" {
	taskgen -n 3 | jq -c '{mine: [1]} + . + {also: "x"}' >noted
	plan noted >once
	jq -e -n 'all(inputs; keys_unsorted[0] == "mine" and .also == "x")' once >/dev/null
	plan once | cmp - once
}

@test "a task that cannot be is a bad row" {
	taskgen -n 1 >one
	jq -c '.op = "warp"' one >bad
	status 1 plan bad
	grep -q "^plan: bad:1: .*'warp'" "$err"
	jq -c '.gpu = "b300"' one >bad
	status 1 plan bad
	grep -q "^plan: bad:1: .*'b300'" "$err"
	jq -c '.shape |= map_values(0)' one >bad
	status 1 plan bad
	grep -q '^plan: bad:1: ' "$err"
	jq -c '.arch = "sm_70"' one >bad
	status 1 plan bad
	grep -q "^plan: bad:1: .*'sm_70'" "$err"
}

#!/usr/bin/env bash
# best.sh climb|top MEASURED…: candidate rows for `bench --candidates`, from what bench
# has measured already (its rows).
#   climb  what to try next: of a variant that has no row at a shape, the model's
#          fastest configuration; of the three fastest rows of a shape, two of a variant
#          at most, every neighbour by one step of one parameter. What has a row is left
#          out: no output means that nothing is left to try.
#   top    what to measure together, beside PyTorch's operators on the same machine: the
#          three fastest rows of each shape, and naive.
set -euo pipefail
export PATH=${BIN:-$PWD/bin}:$PATH LC_ALL=C
way=${1-}
[[ $way == climb || $way == top ]] || { echo "best.sh: climb or top, not '$way'" >&2; exit 2; }
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

names='
	def at: "\(.op) \(.impl) \(.dtype) \(.shape)";
	def whole: "\(at) \(.variant) \(.params)";
	def candidate: {op, impl, gpu, arch, dtype, shape, variant, params, fault: null, source: null};'

jq -c 'select(.env == "measured" and .fault == null)
	| {op, impl, gpu, arch, dtype, shape, variant, params, ms: (if .status == "ok" then .bench.ms else null end)}' "$@" >"$tmp/rows"

# The fastest of each shape.
jq -n -c "$names"'
	[inputs] | group_by(at)[] | map(select(.ms)) | sort_by(.ms) | unique_by(whole) | sort_by(.ms)
	| reduce .[] as $r ([]; if length < 3 and (map(select(.variant == $r.variant)) | length) < 2 then . + [$r] else . end)
	| .[]' "$tmp/rows" >"$tmp/fastest"

space -q --list-kernels >"$tmp/kernels"
if [[ $way == top ]]; then
	jq -n -c --slurpfile kernels "$tmp/kernels" "$names"'
		($kernels | map(select(.variant == "naive") | {key: "\(.op) \(.impl)", value: .preset}) | from_entries) as $naive
		| [inputs] | (., (unique_by(at) | map(.variant = "naive" | .params = $naive["\(.op) \(.impl)"])))
		| .[] | candidate' "$tmp/fastest" | awk '!seen[$0]++'
	exit
fi

# A task of each op and impl, at each shape that has rows.
taskgen -q -n 4000 | jq -n -c --slurpfile rows "$tmp/rows" "$names"'
	(reduce inputs as $t ({}; .["\($t.op) \($t.impl)"] //= $t)) as $task
	| $rows | unique_by(at)[] | $task["\(.op) \(.impl)"] + {gpu, arch, dtype, shape}' >"$tmp/tasks"

jq -n -c --slurpfile kernels "$tmp/kernels" --slurpfile rows "$tmp/rows" "$names"'
	($kernels | map({key: "\(.op) \(.impl) \(.variant)", value: .params}) | from_entries) as $lists
	| ($rows | map({key: whole, value: true}) | from_entries) as $known
	| inputs | . as $r | $lists["\(.op) \(.impl) \(.variant)"] | to_entries[] | .key as $k | .value as $v
	| ($v | index($r.params[$k])) as $i | ($i - 1, $i + 1) | select(. >= 0 and . < ($v | length))
	| $r + {params: ($r.params + {($k): $v[.]})} | select($known[whole] | not) | candidate' "$tmp/fastest" |
	sort -u | simulate -q --candidates | jq -c "$names"'select(.status == "ok") | candidate'

space -q "$tmp/tasks" | simulate -q --candidates | jq -n -c --slurpfile rows "$tmp/rows" "$names"'
	(reduce $rows[] as $r ({}; .[$r | "\(at) \(.variant)"] = true)) as $known
	| reduce (inputs | select(.status == "ok") | select($known["\(at) \(.variant)"] | not)) as $c ({};
		($c | "\(at) \(.variant)") as $k
		| if .[$k] == null or .[$k].bench.ms > $c.bench.ms then .[$k] = $c else . end)
	| .[] | candidate'

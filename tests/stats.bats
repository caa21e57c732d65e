#!/usr/bin/env bats
# stats: counts that agree with jq, and parts that merge exactly.
load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	stage reward 144 >rows
	stats rows >stats.json
}

setup() {
	rows=$BATS_FILE_TMPDIR/rows stats=$BATS_FILE_TMPDIR/stats.json
	cd "$BATS_TEST_TMPDIR"
}

# same NAME JQ-OF-STATS JQ-OF-ROWS: both give the same number, up to 1e-5.
same() {
	local a b
	a=$(jq "$2" "$stats")
	b=$(jq -n "$3" "$rows")
	jq -e -n --argjson a "$a" --argjson b "$b" '($a - $b | fabs) <= 1e-5 * ($b | fabs)' >/dev/null ||
		fail "$1: $a, but jq says $b"
}

@test "counts and means are those that jq finds" {
	same episodes .episodes '[inputs] | length'
	same messages .messages '[inputs.num_messages] | add'
	same agents .agents_per_episode '[inputs.n_agents] | add / length'
	same candidates .candidates '[inputs.messages[] | select(.kind == "candidate")] | length'
	same elapsed .elapsed_s.mean '[inputs.elapsed_s] | add / length'
	same merges .kinds.merge '[inputs.messages[] | select(.kind == "merge")] | length'
	same improved .outcomes.all.improved '[inputs.messages[] | select(.kind == "result").status] | (map(select(. == "improved")) | length) / length'
	same return .returns.mean '[inputs.return] | add / length'
	same tries .scenarios.campaign.tries '[inputs | select(.scenario == "campaign") | [.agents[].tries] | add] | add / length'
	same clip .rewards.improved_on_clip '[inputs.messages[] | select(.status == "improved").reward] | (map(select(. >= 1)) | length) / length'
	same unimproved .log2_speedup.unimproved '[inputs.messages[-1].candidate] | (map(select(. == null)) | length) / length'
	same bins '.rewards.counts | add' '[inputs.messages[] | select(.kind == "result" and .reward)] | length'
	same wins '[.winners[] | select(type == "object")[][]] | add' '[inputs.messages[-1].candidate | values] | length'
	same skill '[.skill[].tries] | add' '[inputs.agents[].tries] | add'
}

@test "correlations are Pearson's" {
	local pearson='def r: length as $n | (map(.[0]) | add / $n) as $x | (map(.[1]) | add / $n) as $y
		| (map((.[0] - $x) * (.[1] - $y)) | add) / ((map((.[0] - $x) | . * .) | add | sqrt) * (map((.[1] - $y) | . * .) | add | sqrt));'
	same agents .returns.correlation_n_agents "$pearson [inputs | [.return, .n_agents]] | r"
	same speedup .returns.correlation_log2_speedup "$pearson [inputs | [.return, (.speedup | log2)]] | r"
}

@test "the lineage of winners" {
	same lineage .winners.lineage_changes_variant '
		def line($all; $c): $all[$c] | select(.) | ., (select(.parent) | line($all; .parent));
		[inputs | select(.messages[-1].candidate) | (.messages | map(select(.kind == "candidate") | {(.candidate): .}) | add) as $all
			| [line($all; .messages[-1].candidate).variant] | unique | length > 1] | (map(select(.)) | length) / length'
}

@test "texts and sources: repeats, different ones, the commonest form" {
	jq -r '.messages[] | .kind as $k | (.text // .subtask) | select(.) | $k + " " + .' "$rows" >texts
	same texts .texts.texts "$(wc -l <texts)"
	local kind want got
	# Up to 4096 different ones the count is exact; here it is a sample.
	want=$(sort texts | uniq -d -c | awk -v n="$(wc -l <texts)" '{ r += $1 - 1 } END { print r / n }')
	got=$(jq .texts.repeats "$stats")
	awk -v a="$got" -v b="$want" 'BEGIN { exit !(a - b < 0.01 && b - a < 0.01) }' || fail "repeats $got, not $want"
	want=$(cut -d' ' -f2- texts | awk '{ for (i = 3; i <= NF; i++) print $(i-2), $(i-1), $i }' | sort -u | wc -l)
	got=$(jq .texts.distinct_trigrams "$stats")
	awk -v a="$got" -v b="$want" 'BEGIN { exit !(a / b < 1.06 && a / b > 0.94) }' || fail "trigrams $got, not $want"
	want=$(jq -r '.messages[].source // empty | @base64' "$rows" | sort -u | wc -l)
	got=$(jq .sources.distinct "$stats")
	awk -v a="$got" -v b="$want" 'BEGIN { exit !(a / b < 1.06 && a / b > 0.94) }' || fail "sources $got, not $want"
	for kind in plan status merge candidate; do
		want=$(grep "^$kind " texts | sed -E 's/[0-9]+(\.[0-9]+)*(e[-+][0-9]+)?/#/g' | sort | uniq -c | sort -rn | awk -v n="$(grep -c "^$kind " texts)" 'NR == 1 { print $1 / n }')
		got=$(jq ".texts.largest_skeleton.$kind" "$stats")
		awk -v a="$got" -v b="$want" 'BEGIN { exit !(a >= b - 1e-6 && a <= b + 0.02) }' || fail "$kind: $got, not $want"
	done
}

@test "few things are counted exactly" {
	head -n 4 "$rows" >few
	[[ $(stats few | jq .sources.distinct) == "$(jq -r '.messages[].source // empty | @base64' few | sort -u | wc -l)" ]]
	[[ $(stats few | jq .texts.distinct_trigrams) == "$(jq -r '.messages[] | (.text // .subtask) | select(.)' few | awk '{ for (i = 3; i <= NF; i++) print $(i-2), $(i-1), $i }' | sort -u | wc -l)" ]]
	cat few few >twice
	[[ $(stats twice | jq .sources.distinct) == "$(stats few | jq .sources.distinct)" ]]
	[[ $(stats twice | jq '.texts.repeats >= 0.5') == true ]]
}

@test "parts merge to the whole, byte for byte, in any order and in any grouping" {
	split -l 31 "$rows" part.
	local p
	for p in part.a?; do
		stats --partial "$p" >"$p.json"
	done
	stats --merge part.a?.json | cmp - "$stats"
	# shellcheck disable=SC2046
	stats --merge $(printf '%s\n' part.a?.json | tac) | cmp - "$stats"
	stats --merge --partial part.aa.json part.ac.json >left
	stats --merge --partial part.ae.json part.ab.json part.ad.json >right
	stats --merge right left | cmp - "$stats"
	cat part.a?.json | stats --merge | cmp - "$stats"
	stats --partial "$rows" | cmp - <(stats --merge --partial left right)
}

@test "partial forms hold integers and texts alone" {
	stats --partial "$rows" | jq -e '[.. | numbers] | all(. == floor)' >/dev/null
}

@test "an empty set has statistics: all of them 0" {
	status 0 stats /dev/null
	[[ $(jq '.episodes, .messages, .returns.mean, .texts.repeats' "$out") == $'0\n0\n0\n0' ]]
	stats --partial /dev/null >nothing
	stats --merge nothing nothing | cmp - "$out"
	stats --merge nothing <(stats --partial "$rows") nothing | cmp - "$stats"
}

@test "what is no part is refused" {
	status 1 stats --merge "$rows"
	said "stats: $rows:1: missing field 'partial'"
	[[ ! -s $out ]]
	stats --partial "$rows" >part
	jq -c '.partial = "0.0.0"' part >old
	status 1 stats --merge old
	said "stats: old:1: partial is of another version '0.0.0'"
	jq -c '.kinds |= .[1:]' part >short
	status 1 stats --merge short
	said "stats: short:1: field 'kinds' is not 12 integers"
	jq -c '.sketches.texts = "x"' part >torn
	status 1 stats --merge torn
	said "stats: torn:1: field 'sketches.texts' is no sketch"
	jq -c '.skeletons.plan = "1"' part >torn
	status 1 stats --merge torn
	said "stats: torn:1: field 'skeletons.plan' is no table"
}

@test "rows that are not scored are refused, and nothing is printed" {
	stage simulate 1 >raw
	status 1 stats raw
	said "stats: raw:1: row is not scored"
	[[ ! -s $out ]]
}

@test "moves against the limiter are told from others" {
	jq -e '.moves | .against_limiter.moves > 0 and .other.moves > 0 and (.gain - .against_limiter.improved + .other.improved | fabs) < 1e-6' "$stats" >/dev/null
	same moves '[.moves[].moves?] | add' '[inputs.messages[] | select(.kind == "result")] | length'
}

@test "the bounds of the default build's statistics" {
	jq '.moves.gain = 0.15 | .texts.repeats = 0.02 | .texts.largest_skeleton[] = 0.01' "$stats" >good
	[[ -z $(jq -r -f "$ROOT/src/etc/bounds.jq" good) ]]
	jq '.moves.gain = 0.14 | .texts.repeats = 0.021 | .texts.largest_skeleton.merge = 0.011' good >bad
	[[ $(jq -r -f "$ROOT/src/etc/bounds.jq" bad) == "stats: moves.gain: is 0.14, not 0.15 to 1
stats: texts.largest_skeleton.merge: is 0.011, not 0 to 0.01
stats: texts.repeats: is 0.021, not 0 to 0.02" ]]
}

@test "numbers that no episode has are refused" {
	head -n 1 "$rows" | jq -c '.return = 1e300' >bad
	status 1 stats bad
	said "stats: bad:1: field 'return' is out of range"
	head -n 1 "$rows" | jq -c '.speedup = -1' >bad
	status 1 stats bad
	said "stats: bad:1: field 'speedup' is out of range"
}

@test "sums of squares beyond 10^15 stay exact" {
	head -n 3 "$rows" | jq -c '.return = 987654.321987' >large
	stats --partial large >part
	stats --merge part part part | cmp - <(stats large large large)
	[[ $(stats large large | jq .returns.mean) == 987654 ]]
}

#!/usr/bin/env bats
# What is made of the committed measurements.
load helper

key='"\(.op) \(.impl) \(.dtype) \(.shape)"'

setup_file() {
	BEST=$ROOT/data/measured/h200_best.jsonl
	export BEST
	BIN=$BIN "$ROOT/src/etc/best.sh" top "$BEST" >"$BATS_FILE_TMPDIR/top"
	BIN=$BIN "$ROOT/src/etc/best.sh" climb "$BEST" >"$BATS_FILE_TMPDIR/climb"
}

@test "every committed timing was verified, and is not below what physics allows" {
	none jq -c 'select(.status == "ok") | select(.verify.status != "pass" or .env != "measured" or .bench.ms <= 0)' "$BEST"
	none jq -c 'select(.status == "ok") | select(.bench.ms < 0.9 * .provenance.floor_ms)' "$BEST"
}

@test "best.sh top: naive and at most three others of each shape, the fastest among them" {
	jq -r "$key" "$BATS_FILE_TMPDIR/top" | sort | uniq -c >"$BATS_TEST_TMPDIR/n"
	none awk '$1 < 2 || $1 > 4' "$BATS_TEST_TMPDIR/n"
	cmp <(jq -r "select(.status == \"ok\") | $key" "$BEST" | sort -u) <(jq -r "$key" "$BATS_FILE_TMPDIR/top" | sort -u)
	cmp <(jq -r "select(.variant == \"naive\") | $key" "$BATS_FILE_TMPDIR/top" | sort -u) <(jq -r "$key" "$BATS_FILE_TMPDIR/top" | sort -u)
	jq -n -c --slurpfile top "$BATS_FILE_TMPDIR/top" '
		($top | map({key: "\(.op) \(.impl) \(.dtype) \(.shape) \(.variant) \(.params)", value: true}) | from_entries) as $has
		| [inputs | select(.status == "ok")] | group_by([.op, .impl, .dtype, .shape])[] | min_by(.bench.ms)
		| select($has["\(.op) \(.impl) \(.dtype) \(.shape) \(.variant) \(.params)"] | not)' "$BEST" >"$BATS_TEST_TMPDIR/lost"
	none cat "$BATS_TEST_TMPDIR/lost"
}

@test "best.sh climb: legal, not measured yet, a step from a fast one or a variant without a row" {
	(($(wc -l <"$BATS_FILE_TMPDIR/climb") > 0))
	[[ $(simulate -q --candidates "$BATS_FILE_TMPDIR/climb" | jq -r .status | sort -u) == ok ]]
	jq -n -c --slurpfile rows "$BEST" '
		def at: "\(.op) \(.impl) \(.dtype) \(.shape) \(.variant)";
		($rows | group_by(at) | map({key: (.[0] | at), value: map(.params)}) | from_entries) as $of
		| inputs | . as $c | ($of[at] // []) as $known
		| select(($known | index([$c.params])) or (($known | length) > 0 and
			([$known[] | . as $p | [keys[] | select($p[.] != $c.params[.])] | length] | min) != 1))' \
		"$BATS_FILE_TMPDIR/climb" >"$BATS_TEST_TMPDIR/odd"
	none cat "$BATS_TEST_TMPDIR/odd"
}

@test "model_error.sh: its figures over all rows are those of the rows" {
	BIN=$BIN status 0 "$ROOT/src/etc/model_error.sh" "$BEST"
	local n median
	read -r n median < <(jq -c --argjson least "$(jq -s 'map(.provenance.floor_ms | numbers) | min' "$BEST")" \
		'select(.status == "ok") | . + {was: (.bench.ms - (.provenance.floor_ms // $least) + $least)}' "$BEST" | simulate -q --candidates |
		jq -n -r '[inputs | (.bench.ms / .was - 1) | fabs] | "\(length) \(sort[(length - 1) / 2 | floor] * 1000 | round / 10)"')
	[[ $(awk '$1 == "all" { print $2, $3 }' "$out") == "$n $median" ]] || fail "$(tail -1 "$out") not $n $median"
}

@test "noise_report.sh: medians of what was put in, per class, and machines told apart by a pause" {
	# One kernel, two blocks each of two processes on one machine, one of another an hour later.
	jq -n -c '[[0, 1, 1, 0, 100], [0, 1, 2, 1000, 102], [5, 2, 1, 0, 101], [6, 2, 2, 1000, 101], [70, 1, 1, 0, 110]][]
		| {op: "rope", variant: "naive", shape: {T: 1}, params: {}, target_ms: 0.03, process: .[1], block: .[2], gap_ms: .[3],
			ms: [.[4], .[4], .[4]], date: (1764547200 + 60 * .[0] | todate)}' >"$BATS_TEST_TMPDIR/noise"
	status 0 "$ROOT/src/etc/noise_report.sh" "$BATS_TEST_TMPDIR/noise"
	# Of two numbers the median is the lower: blocks lie 2 and 0 percent apart, processes 100 and 101, machines 101 and
	# 110, and what ran after a pause 101 by 100.
	[[ $(tail -n 1 "$out") == '| 30 us | 1, 5 | 0 | 0 | 1 | 8.91 | 1 |' ]] || fail "$(tail -n 1 "$out")"
	status 1 "$ROOT/src/etc/noise_report.sh" /dev/null
	status 0 "$ROOT/src/etc/noise_report.sh" "$ROOT/data/measured/h200_noise.jsonl"
	[[ $(wc -l <"$ROOT/data/measured/h200_noise.jsonl") == $(awk -F '[|,]' 'NR > 2 { n += $4 } END { print n }' "$out") ]]
}

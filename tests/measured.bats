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
	read -r n median < <(jq -c 'select(.status == "ok") | . + {was: .bench.ms}' "$BEST" | simulate -q --candidates |
		jq -n -r '[inputs | (.bench.ms / .was - 1) | fabs] | "\(length) \(sort[(length - 1) / 2 | floor] * 1000 | round / 10)"')
	[[ $(awk '$1 == "all" { print $2, $3 }' "$out") == "$n $median" ]] || fail "$(tail -1 "$out") not $n $median"
}

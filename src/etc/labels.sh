#!/usr/bin/env bash
# labels.sh FILE [BENCH-OPTION…]: proves on this machine's GPU the labels that
# FILE does not hold, and leaves in it those that still count, old and new, in the
# order of their kernel files. A run that was cut short (--limit) is continued by
# the next.
set -euo pipefail
file=$1
shift
mkdir -p "${file%/*}"
touch "$file"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

status=0
"$BIN/bench" --labels --done "$file" "$@" >"$tmp/new" || status=$?
((status <= 1)) || exit "$status"
"$BIN/bench" --labels --list --gpu "${GPU:-h200}" >"$tmp/current" || true
# Later rows replace earlier ones of the same label; labels of a source that has
# changed since are gone.
jq -n -c --rawfile current "$tmp/current" '
	($current | split("\n") | map(split(" ")[0] | select(. != null and . != "")) | map({key: ., value: true}) | from_entries) as $known
	| reduce (inputs | select($known[.label])) as $row ({}; .[$row.label] = $row)
	| [.[]] | sort_by(.op, .impl, .variant, .kind, .fault, .dtype)[]' "$file" "$tmp/new" >"$file.new"
mv "$file.new" "$file"
jq -n -r 'reduce inputs as $r ({}; .[$r.kind + " " + $r.held] += 1) | to_entries[] | "\(.value) \(.key)"' "$file" >&2
exit "$status"

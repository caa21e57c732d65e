#!/usr/bin/env bash
# model_error.sh FILE…: the model beside our own measurements, committed rows of
# bench. Per op: how far the model's times are off, and how much slower than the
# best measured configuration of a shape the one is that the model takes for best. What
# a launch cost a row's machine more than the quickest (floor_ms) is no error of the model.
set -euo pipefail
export PATH=${BIN:-$PWD/bin}:$PATH LC_ALL=C

least=$(jq -n '[inputs.provenance.floor_ms | numbers] | min' "$@")
jq -c --argjson least "$least" 'select(.status == "ok" and .env == "measured" and (.process // 1) == 1)
	| . + {measured_ms: (.bench.ms - ((.provenance.floor_ms // $least) - $least))}' "$@" |
	simulate -q --candidates | jq -n -r '
	def rank($q): sort | .[(length - 1) * $q | floor];
	def pct: . * 1000 | round / 10 | tostring + " %";
	def line($name): [$name, length,
		(map(.error | fabs) | rank(0.5) | pct), (map(.error | fabs) | rank(0.9) | pct),
		(map(.error) | rank(0.5) | pct),
		([group_by(.key)[] | select(length > 1) | (min_by(.model).measured / (map(.measured) | min)) - 1]
			| if length == 0 then "-" else rank(0.5) | pct end)] | @tsv;
	["# op", "rows", "median error", "p90", "signed median", "its choice is slower by"] | @tsv,
	([inputs | select(.bench.ms) | {op, key: "\(.op) \(.impl) \(.dtype) \(.shape)", measured: .measured_ms,
		model: .bench.ms, error: (.bench.ms / .measured_ms - 1)}]
	| (group_by(.op)[] | line(.[0].op)), line("all"))' | column -t -s $'\t'

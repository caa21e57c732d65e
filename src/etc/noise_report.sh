#!/usr/bin/env bash
# noise_report.sh NOISE: how far a timing can be trusted, from bench --noise. Per class of
# kernels, medians over its kernels in percent: the samples of a block, then the medians of
# blocks, of processes and of machines (largest by smallest), and what a second's idling does.
# Rows do not name their machine: half an hour without a row and it is taken for another.
set -euo pipefail
[[ -s $1 ]] || { echo "noise_report.sh: no measurements in '$1'" >&2; exit 1; }
jq -n -r '
	def median: map(values) | sort | if length == 0 then null else .[(length - 1) / 2 | floor] end;
	def variation: (add / length) as $m | (map(. - $m | . * .) | add / (length - 1) | sqrt) / $m;
	# How far the medians of groups of one kernel lie apart, over the kernels that have two groups.
	def apart(group): [group_by(.kernel)[] | [group_by(group)[] | map(.ms) | median] | select(length > 1) | max / min - 1] | median;
	def percent: if . == null then "–" else . * 1e4 | round / 100 | tostring end;
	(reduce ([inputs] | sort_by(.date))[] as $r ({machine: 0, last: 0, rows: []}; ($r.date | fromdate) as $t
		| (if $t - .last > 1800 then .machine += 1 else . end) | .last = $t | .rows += [$r + {machine}]) | .rows)
	| map({kernel: "\(.op) \(.variant) \(.shape) \(.params)", class: .target_ms, process, block, gap: .gap_ms,
		machine, ms: (.ms | median), within: (.ms | variation)})
	| "| kernels near | kernels, blocks | samples | blocks | processes | machines | after 1 s idle |",
	  "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
	  (group_by(.class)[]
		| [if .[0].class < 1 then "\(.[0].class * 1000) us" else "\(.[0].class) ms" end,
			"\(map(.kernel) | unique | length), \(length)", (map(.within) | median | percent),
			(group_by([.machine, .process]) | map(apart(.block)) | median | percent),
			(group_by(.machine) | map(apart(.process)) | median | percent),
			(apart(.machine) | percent),
			([group_by([.machine, .kernel])[] | [map(select(.gap == 0).ms), map(select(.gap >= 1000).ms)]
				| select(all(length > 0)) | (.[1] | median) / (.[0] | median) - 1]
				| median | percent)]
		| "| \(join(" | ")) |")' "$1"

#!/usr/bin/env bash
# gpu_report.sh PEERS MEASURED…: the README's table, from committed measurements: per
# op and class of shapes the naive kernel, the best of ours, PyTorch and the limit,
# in microseconds, with the ratios' geometric mean and worst case. Ours count as far as
# they were measured within half an hour of PyTorch's, in one run on one machine: a launch
# alone differs by 2 us from one to the next. Naive may be of another run.
set -euo pipefail
peers=$1
shift
for f; do
	[[ -s $f ]] || { echo "gpu_report.sh: no measurements in '$f'" >&2; exit 1; }
done

jq -n -r --slurpfile peers "$peers" '
	# Compulsory bytes, from what the row itself says.
	def bytes: .bench.gbps * .bench.ms * 1e6;
	def class: if bytes >= 1e8 then "> 100 MB" elif bytes >= 1e6 then "1 to 100 MB" else "< 1 MB" end;
	def rank: {"< 1 MB": 0, "1 to 100 MB": 1, "> 100 MB": 2}[.];
	def key: "\(.op) \(.dtype) \(.shape | tojson)";
	def geomean: if length == 0 then null else (map(log) | add / length | exp) end;
	def us: if . == null then "–" else . * 1000 | if . < 100 then . * 10 | round / 10 else round end | tostring end;
	def ratio: if length == 0 then "–"
		else "\(geomean * 100 | round / 100) (\(min * 100 | round / 100))" end;
	($peers | map(select(.ms)) | group_by(key) | map({key: (.[0] | key), value: (map(.ms) | min)}) | from_entries) as $torch
	| ($peers | map({key: .op, value: (.provenance.date | fromdate)}) | from_entries) as $when
	| [inputs | select(.status == "ok" and (.process // 1) == 1)
		| .beside = ((.provenance.date | fromdate) - ($when[.op] // 0) | fabs < 1800)]
	| group_by([.op, .impl, key])
	| map((map(select(.beside)) | if length > 0 then . else null end) as $run | (($run // .) | min_by(.bench.ms)) as $ours
		| {op: .[0].op, impl: .[0].impl, class: (.[0] | class), key: (.[0] | key),
		naive: ([.[] | select(.variant == "naive") | .bench.ms] | min),
		best: $ours.bench.ms, variant: $ours.variant,
		stream: ($ours.provenance.stream_ms // ([$run[]?.provenance.stream_ms | numbers] | min)
			// ([.[].provenance.stream_ms | numbers] | min))}
		| .torch = $torch[.key])
	| group_by([.op, .impl, .class])
	| map({op: .[0].op, impl: .[0].impl, class: .[0].class, n: length,
		naive: ([.[].naive | select(.)] | geomean), best: ([.[].best] | geomean),
		torch: ([.[].torch | select(.)] | geomean), stream: ([.[].stream | select(.)] | geomean),
		faster: ([.[] | select(.naive) | .naive / .best] | ratio),
		lib: ([.[] | select(.torch) | .torch / .best] | ratio),
		limit: ([.[] | select(.stream) | .stream / .best] | ratio),
		variants: ([.[].variant] | unique | join(", "))})
	| sort_by(.op, .impl, (.class | rank))
	| "| op | bytes | shapes | naive, µs | ours, µs | PyTorch, µs | stream, µs | naive / ours | PyTorch / ours | stream / ours | fastest variants |",
	  "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
	  (.[] | "| \(.op)\(if .impl == "triton" and .op == "swiglu_act" then " (Triton)" else "" end) | \(.class) | \(.n) | \(.naive | us) | \(.best | us) | \(.torch | us) | \(.stream | us) | \(.faster) | \(.lib) | \(.limit) | \(.variants) |")
' "$@"
jq -n -r '[inputs | select(.status == "ok") | .provenance] | .[0] as $p
	| "\n\($p.gpu), driver \($p.driver), CUDA \($p.cuda), nvcc \($p.nvcc); \(length) timings, \(map(.date[:10]) | unique | join(", ")). Times are geometric means over the shapes of a class; a ratio'"'"'s worst case stands in brackets."' "$@"

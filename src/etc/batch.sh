#!/usr/bin/env bash
# batch.sh NNN [fetched]: makes one batch of $OUT from its command line, with its
# sum and partial statistics. Fetched: a host sent the rows, in .batch_NNN.rows.
set -euo pipefail

at=$OUT/batches/.batch_$1
trap 'rm -f "$at".*.tmp' EXIT
if [[ ${2-} == fetched ]]; then
	mv "$at.rows" "$at.jsonl.tmp"
else
	eval "$(<"$at.cmd")" >"$at.jsonl.tmp"
fi
stats --partial "$at.jsonl.tmp" >"$at.stats.tmp"
src/etc/sha256.sh "batches/batch_$1.jsonl" <"$at.jsonl.tmp" >"$at.sum.tmp"
mv "$at.sum.tmp" "$at.sum"
mv "$at.stats.tmp" "$at.stats"
mv "$at.jsonl.tmp" "$OUT/batches/batch_$1.jsonl"

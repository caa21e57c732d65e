#!/usr/bin/env bash
# validate.sh DIR: is the data set in DIR what it should be? Silent if so.
# Its sums, every rule of lint over rows and set, and for the default build the
# committed sums too.
set -euo pipefail
dir=$1
bad=0

if [[ ! -e $dir/SHA256SUMS || ! -e $dir/.knobs ]]; then
	echo "no data set in $dir: run make dataset" >&2
	exit 1
fi
(cd "$dir" && sha256sum --quiet -c SHA256SUMS) || bad=1
(cd "$dir" && diff <(cut -c 67- SHA256SUMS) <(ls batches/batch_*.jsonl episodes.jsonl stats.json tasks_holdout.jsonl)) || bad=1

# The bounds of the statistics are those of the default build.
default="SEED=1 EPISODES=2400 SHARD_SIZE=100 SCENARIO= REWARD=standard OPS= GPUS="
census=(--census)
if [[ $(<"$dir/.knobs") == "$default" ]]; then
	census+=(--default)
	diff tests/fixtures/SHA256SUMS.default "$dir/SHA256SUMS" >/dev/null || {
		echo "$dir/SHA256SUMS is not tests/fixtures/SHA256SUMS.default: a change of bytes must change the version" >&2
		bad=1
	}
fi
lint "${census[@]}" "$dir"/batches/batch_*.jsonl || bad=1
lint "$dir/tasks_holdout.jsonl" || bad=1
# What lint cannot count: a line for each figure that is out of bounds.
if [[ ${census[*]} == *--default ]]; then
	bounds=$(jq -r -f src/etc/bounds.jq "$dir/stats.json")
	[[ -z $bounds ]] || { echo "$bounds"; bad=1; }
fi
exit "$bad"

#!/usr/bin/env bash
# knobs.sh [shard]: refuses a knob of pipeline.mk that is no value. They become
# command lines and file names, so no blank and no quote gets past here.
set -euo pipefail

bad() {
	echo "make: $1" >&2
	exit 2
}

for name in SEED SCENARIO REWARD OPS GPUS OUT HOSTS HOSTS_BIN; do
	[[ ${!name} =~ ^[A-Za-z0-9_./,:=@+-]*$ ]] || bad "$name is no such word: '${!name}'"
done
for name in EPISODES SHARD_SIZE JOBS; do
	[[ ${!name} =~ ^[1-9][0-9]{0,8}$ ]] || bad "$name is no number from 1: '${!name}'"
done
[[ -n $OUT && -n $SEED && -n $REWARD ]] || bad "OUT, SEED and REWARD cannot be empty"
if [[ ${1-} == shard ]]; then
	[[ $SHARD =~ ^[0-9]{1,9}$ ]] || bad "which shard? as in SHARD=7"
	last=$(((EPISODES - 1) / SHARD_SIZE))
	((10#$SHARD <= last)) || bad "no shard $SHARD: there are 0 to $last"
fi

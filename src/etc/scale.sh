#!/usr/bin/env bash
# scale.sh [EPISODES [PAIRS]]: how long ten times the episodes take, in turn with the
# small build and by medians. Each build writes where nothing was, so that what the
# kernel asks for fresh memory weighs on both alike. Programs must be built.
set -euo pipefail
small=${1-2400} pairs=${2-2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
TIMEFORMAT=%R

build() {
	local took
	took=$({ time make -s dataset EPISODES="$2" OUT="$tmp/$1" >/dev/null; } 2>&1)
	echo "$2 $took" | tee -a "$tmp/times"
}
build 0 "$small"
for ((i = 1; i <= pairs; i++)); do
	build "$i.large" $((small * 10))
	build "$i.small" "$small"
done
median() { awk -v n="$1" '$1 == n { print $2 }' "$tmp/times" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'; }
awk -v a="$(median "$small")" -v b="$(median $((small * 10)))" 'BEGIN { printf "%.1f times as long\n", b / a }'

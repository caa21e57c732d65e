#!/usr/bin/env bash
# perf.sh: how fast the programs are on this machine, side by side in one run,
# and how the whole build compares with one pass of jq and of a bare cJSON loop
# over its result. SCALE=10 also builds ten times as many episodes (needs 16 GB).
set -euo pipefail
export PATH=$BIN:$PATH LC_ALL=C
# shellcheck disable=SC2153 # make exports it
d=$BUILD/perf
rm -rf "$d"
mkdir -p "$d"
trap 'rm -rf "$d"' EXIT
rows=${ROWS:-600}

# timed COMMAND…: runs it, stdout to $to; sets $wall and $cpu (s) and $peak (MB,
# of the largest process).
to=$d/out
timed() {
	/usr/bin/time -o "$d/time" -f '%e %U %S %M' "$@" >"$to"
	read -r wall cpu peak < <(awk '{ print $1, $2 + $3, $4 / 1024 }' "$d/time")
}

# line NAME ROWS BYTES: a line of the table.
line() {
	awk -v n="$1" -v r="$2" -v b="$3" -v w="$wall" -v c="$cpu" -v p="$peak" 'BEGIN {
		t = w < 0.01 ? 0.01 : w
		printf "%-40s %8.2f %8.2f %9.0f %9.1f %8.1f\n", n, w, c, r / t, b / t / 1e6, p }'
}

printf '# %s rows; %s; %s cores; MB/s of rows in or out, whichever is more\n' "$rows" \
	"$(taskgen --version | sed 's/.*(\(.*\))/\1/')" "$(nproc)"
printf '%-40s %8s %8s %9s %9s %8s\n' '# program' 's' 'cpu s' 'rows/s' 'MB/s' 'peak MB'

bytes() { stat -c %s "$@" | awk '{ if ($1 > m) m = $1 } END { print m }'; }
timed taskgen -n "$rows"
mv "$d/out" "$d/taskgen"
line taskgen "$rows" "$(bytes "$d/taskgen")"
before=taskgen
for p in plan simulate score reward; do
	timed "$p" "$d/$before"
	mv "$d/out" "$d/$p"
	line "$p" "$rows" "$(bytes "$d/$before" "$d/$p")"
	before=$p
done
timed lint --census "$d/reward" || true
line 'lint --census' "$rows" "$(bytes "$d/reward")"
timed stats "$d/reward"
line stats "$rows" "$(bytes "$d/reward")"
timed shard --join "$d/reward"
line 'shard --join' "$rows" "$(bytes "$d/reward")"
timed space --sample 50 "$d/taskgen"
mv "$d/out" "$d/space"
line 'space --sample 50' "$(wc -l <"$d/space")" "$(bytes "$d/space")"
timed simulate --candidates "$d/space"
line 'simulate --candidates' "$(wc -l <"$d/space")" "$(bytes "$d/out")"
timed bash -o pipefail -c "taskgen -n $rows | plan | simulate | score | reward"
line 'the chain, a pipe' "$rows" "$(bytes "$d/out")"
rm -f "$d/taskgen" "$d/plan" "$d/simulate" "$d/score" "$d/reward" "$d/space" "$d/out"

# median EXPRESSION FILE: over the lines of FILE, in awk's fields.
median() {
	awk "{ print $1 }" "$2" | sort -n | awk '{ r[NR] = $1 } END { print r[int((NR + 1) / 2)] }'
}

# compare EPISODES PAIRS: the build, jq and cJSON over the same rows, one after
# another and all again; the medians of the ratios, as the machine is not ours alone.
compare() {
	local set=$d/set build jq_wall i
	: >"$d/runs"
	for ((i = 0; i < $2; i++)); do
		rm -rf "$set"
		timed make --no-print-directory -f pipeline.mk BIN="$BIN" OUT="$set" EPISODES="$1" JOBS="$JOBS"
		build=$wall
		((i)) || line "make dataset EPISODES=$1" "$1" "$(bytes "$set/episodes.jsonl")"
		to=/dev/null
		timed jq -c . "$set/episodes.jsonl"
		jq_wall=$wall
		((i)) || line "jq -c . episodes.jsonl >/dev/null" "$1" "$(bytes "$set/episodes.jsonl")"
		timed "$BUILD/cjson_loop" <"$set/episodes.jsonl"
		((i)) || line "a bare cJSON loop over it" "$1" "$(bytes "$set/episodes.jsonl")"
		to=$d/out
		echo "$build $jq_wall $wall" >>"$d/runs"
	done
	rm -rf "$set"
	# shellcheck disable=SC2016 # awk's fields
	printf '# the build takes %.2f of the time of jq, %.2f of that of the cJSON loop (medians of %d)\n' \
		"$(median '$1 / $2' "$d/runs")" "$(median '$1 / $3' "$d/runs")" "$2"
}

# scale EPISODES TIMES: the small build and the large one in turn, and their medians. Each
# writes where nothing was, so that what the kernel asks for fresh memory weighs on both alike.
scale() {
	local i n
	for i in 1 2 3 4 5; do
		n=$((i % 2 ? $1 : $1 * $2))
		timed make --no-print-directory -f pipeline.mk BIN="$BIN" OUT="$d/set$i" EPISODES="$n" JOBS="$JOBS"
		((i > 2)) || line "make dataset EPISODES=$n" "$n" "$(bytes "$d/set$i/episodes.jsonl")"
		echo "$wall" >>"$d/runs.$n"
	done
	rm -rf "$d"/set?
	# shellcheck disable=SC2016
	printf '# %d times the episodes take %.1f times as long\n' "$2" \
		"$(awk -v l="$(median '$1' "$d/runs.$(($1 * $2))")" -v s="$(median '$1' "$d/runs.$1")" 'BEGIN { print l / s }')"
	rm -f "$d"/runs.*
}

compare 2400 "${PAIRS:-5}"
((${SCALE:-1} == 1)) || scale 2400 "$SCALE"

#!/usr/bin/env bash
# sanitize.sh LABELS [memcheck|racecheck [BENCH-OPTION…]]: every CUDA variant in every dtype,
# at the smallest shape that its label names, verified under compute-sanitizer. racecheck
# sees ordinary loads and stores of shared memory alone, so what copies asynchronously is
# left out of it. Needs a GPU; exit status 1 if anything is found.
set -euo pipefail
export PATH=${BIN:-$PWD/bin}:$PATH LC_ALL=C
labels=$1 tool=${2-memcheck}
sanitizer=$(command -v compute-sanitizer) || { echo 'sanitize.sh: no compute-sanitizer' >&2; exit 3; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

space -q --list-kernels | jq -c 'select(.impl == "cuda") | {op, variant, needs}' >"$tmp/kernels"
jq -c --slurpfile kernels "$tmp/kernels" --arg tool "$tool" '
	select(.kind == "verifies" and .impl == "cuda")
	| . as $l | ($kernels[] | select(.op == $l.op and .variant == $l.variant) | .needs) as $needs
	| select($tool != "racecheck" or $needs - ["fp8_mma"] == [])
	| {op, impl, gpu: "h200", arch: "sm_90a", dtype, shape: .sets[0].shapes[0], variant, params: .sets[0].params,
		fault: null, source: null}' "$labels" >"$tmp/candidates"

worker=$(command -v bench-worker)
cat >"$tmp/worker" <<END
#!/bin/sh
exec '$sanitizer' --tool $tool --print-limit 3 --log-file '$tmp/log.%p' '$worker' "\$@"
END
chmod +x "$tmp/worker"
bench -q --candidates --verify-only --worker "$tmp/worker" --deadline 120 "${@:3}" \
	"$tmp/candidates" >"$tmp/rows"
jq -r 'select(.status != "ok") | "\(.op)/\(.variant) as \(.dtype): \(.status) \(.provenance.note)"' "$tmp/rows" >"$tmp/found"
logs=("$tmp"/log.*)
[[ -e ${logs[0]} ]] || { echo "sanitize.sh: $tool has left no log" >&2; exit 3; }
# The header and a summary of nothing are no finding.
cat "${logs[@]}" | grep -vE '^=+ (COMPUTE-SANITIZER|(ERROR|RACECHECK) SUMMARY: 0 .*)?$' >>"$tmp/found" || true
head -n 100 "$tmp/found"
printf '%s: %d of %d candidates under %s, %s\n' "${0##*/}" "$(wc -l <"$tmp/rows")" "$(wc -l <"$tmp/candidates")" "$tool" \
	"$([[ -s $tmp/found ]] && echo 'not clean' || echo clean)" >&2
[[ ! -s $tmp/found ]]

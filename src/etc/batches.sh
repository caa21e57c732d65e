#!/usr/bin/env bash
# batches.sh JOBS: makes the batches of $OUT whose numbers are on stdin, JOBS at
# a time, here or on the hosts that the file $HOSTS lists. The lock is held by
# whoever calls, so what a killed build left is nobody's.
set -euo pipefail

jobs=$1
read -ra stale || true
rm -f "$OUT"/batches/.batch_*.tmp "$OUT"/batches/.batch_*.rows* "$OUT"/.*.tmp
((${#stale[@]})) || exit 0

log=$OUT/.joblog
export PARALLEL_SHELL=/bin/bash
options=(--plain --will-cite --halt "soon,fail=1" --joblog "$log")
[[ ! -t 2 ]] || options+=(--bar)

# report NNN…: the numbers of these jobs, in the order in which they were given,
# that went well, one a line; the others are named on stderr. It is read from
# the log: parallel's own status is not trusted alone.
report() {
	awk -F '\t' -v list="$*" '
		BEGIN { n = split(list, number, " ") }
		FNR > 1 && $7 == 0 && $8 == 0 { good[$1] = 1 }
		FNR > 1 { why[$1] = $8 ? "signal " $8 : "exit status " $7; host[$1] = $2 == ":" ? "" : " on " $2 }
		END {
			for (k = 1; k <= n; k++)
				if (good[k])
					print number[k]
				else if (k in why)
					print "batch " number[k] " failed" host[k] ": " why[k] >"/dev/stderr"
				else
					left++
			if (left)
				print left " batches not begun" >"/dev/stderr"
		}' "$log"
}

here() {
	local status=0 good
	printf '%s\n' "${stale[@]}" | parallel "${options[@]}" -j "$jobs" src/etc/batch.sh || status=$?
	good=$(report "${stale[@]}" | wc -l)
	((status == 0 && good == ${#stale[@]}))
}

if [[ -z $HOSTS ]]; then
	here
else
	# shellcheck source-path=SCRIPTDIR source=hosts.sh
	. src/etc/hosts.sh
	there
fi

#!/usr/bin/env bash
# run.sh TEST…: runs unit programs and bats files, all of them whatever fails,
# and ends with the line `N passed, N failed, N skipped`. Both kinds print TAP.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$BUILD/test.log
: >"$log"
bats=()
broken=0
for t in "$@"; do
	if [[ $t == *.bats ]]; then
		bats+=("$t")
		continue
	fi
	status=0
	"$t" 2>&1 | sed "s|^\(not \)\{0,1\}ok [0-9]*[ -]*|&${t##*/}: |" | tee -a "$log" || status=$?
	# A program that dies between two points is a failure of its own.
	if ((status)) && ! tail -n 200 "$log" | grep -q "^not ok.* ${t##*/}: "; then
		echo "not ok - ${t##*/}: exit status $status" | tee -a "$log"
	fi
done
if ((${#bats[@]})); then
	bats --tap --print-output-on-failure -j "$JOBS" "${bats[@]}" 3>&- 2>&1 | tee -a "$log" || broken=$?
fi

passed=$(grep -c '^ok ' "$log" || true)
failed=$(grep -c '^not ok ' "$log" || true)
skipped=$(grep -c '^ok .*# skip' "$log" || true)
# A runner that broke without naming a test.
if ((broken && !failed)); then
	failed=1
fi
if ((failed)); then
	echo
	grep '^not ok ' "$log" || true
fi
grep '^ok .*# skip' "$log" || true
echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))

#!/usr/bin/env bash
# check.sh FILE…: what machines can say about our sources. Every tool looks at
# everything before the first complaint ends it.
set -euo pipefail
bad=0
say() {
	echo "check: $1"
	bad=1
}

for f; do
	clang-format "$f" | cmp -s - "$f" || say "clang-format would write $f otherwise: make format"
done

mapfile -t scripts < <(git ls-files -co --exclude-standard | grep -E '\.(sh|bash)$|^\.ci/run$')
shellcheck -x "${scripts[@]}" || say "shellcheck"
mapfile -t suites < <(git ls-files -co --exclude-standard | grep -E '\.bats$')
shellcheck -s bats -e SC1091,SC2012,SC2016,SC2030,SC2031,SC2034,SC2094,SC2154,SC2164,SC2317 "${suites[@]}" || say "shellcheck of the tests"

sources=()
for f in "$@"; do
	[[ $f != *.c || $f == tests/* ]] || sources+=("$f")
done
# It knows noreturn by the attribute alone, and takes what is filled through a
# pointer or behind a count for uninitialised.
cppcheck -q '-D_Noreturn=__attribute__((noreturn))' --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
	--suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --suppress=arrayIndexThenCheck \
	--suppress=uninitvar:src/kernels/expr.c --suppress=ctuuninitvar:src/kernels/expr.c --suppress=uninitvar:src/model/check.c -Isrc -I"$BUILD" "${sources[@]}" || say "cppcheck"

# The other compiler warns of other things.
other=clang
[[ $CC != clang* ]] || other=gcc
for f in "${sources[@]}"; do
	# shellcheck disable=SC2086
	"$other" $STRICT -fsyntax-only "$f" || say "$other: $f"
done
exit "$bad"

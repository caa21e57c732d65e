# helper.bash: what every test file loads. A test makes its own world in
# $BATS_TEST_TMPDIR; no test touches data/ or holdout/.
# shellcheck shell=bash disable=SC2034

! declare -F bats_require_minimum_version >/dev/null || bats_require_minimum_version 1.5.0

ROOT=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
BIN=${BIN:-$ROOT/bin}
BUILD=${BUILD:-$ROOT/build}
export ROOT BIN BUILD LC_ALL=C PATH="$BIN:$PATH"
# A test's own make is nobody's sub-make.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES GNUMAKEFLAGS PARALLEL
unset TZ LANG LANGUAGE

ALL_PROGRAMS="taskgen plan simulate score reward shard stats space lint"

# fixtures FEATURE sets $FIXTURES to tests/fixtures/FEATURE.
fixtures() {
	FIXTURES=$ROOT/tests/fixtures/$1
}

# tool COMMAND…: skips the test, with the reason, where one is missing.
tool() {
	local t
	for t in "$@"; do
		command -v "$t" >/dev/null || skip "no $t on this machine"
	done
}

# fail WORDS…: ends the test with the words.
fail() {
	printf '%s\n' "$*" >&2
	return 1
}

# none COMMAND…: COMMAND finds nothing; what it prints is the reason to fail.
# (A plain `! COMMAND` would not fail a test.)
none() {
	local found
	found=$("$@" || true)
	[[ -z $found ]] || fail "$found"
}

# none_but PATTERN COMMAND…: the same, lines that match PATTERN aside.
none_but() {
	local found
	found=$("${@:2}" | grep -vE -- "$1" || true)
	[[ -z $found ]] || fail "$found"
}

# status N COMMAND…: fails unless COMMAND's exit status is N; its output stays
# in the files $out and $err.
status() {
	local want=$1 got=0
	shift
	out=$BATS_TEST_TMPDIR/out err=$BATS_TEST_TMPDIR/err
	"$@" >"$out" 2>"$err" || got=$?
	((got == want)) || fail "exit $got instead of $want: $*"$'\n'"$(cut -c 1-300 "$err" | tail -n 20)"
}

# said WORDS: the last `status` printed exactly this line on stderr.
said() {
	grep -qxF -- "$1" "$err" || fail "expected on stderr: $1"$'\n'"got: $(cut -c 1-300 "$err")"
}

# golden FILE: $out is the golden FILE, byte for byte; UPDATE=1 rewrites it.
golden() {
	if [[ -n ${UPDATE-} ]]; then
		mkdir -p "${1%/*}"
		cp "$out" "$1"
	fi
	cmp "$out" "$1" || fail "$(diff <(cut -c 1-400 "$1") <(cut -c 1-400 "$out") | head -n 6)"
}

# stage NAME N: the first N rows of the chain up to NAME, on stdout.
stage() {
	case $1 in
	taskgen) taskgen -n "$2" ;;
	plan) taskgen -n "$2" | plan ;;
	simulate) taskgen -n "$2" | plan | simulate ;;
	score) taskgen -n "$2" | plan | simulate | score ;;
	reward) taskgen -n "$2" | plan | simulate | score | reward ;;
	esac
}

# build DIR KNOB=VALUE…: a data build into DIR with these programs.
build() {
	local dir=$1
	shift
	make -C "$ROOT" --no-print-directory -f pipeline.mk BIN="$BIN" OUT="$dir" "$@" 3>&-
}

# wrap DIR PROGRAM SCRIPT: a folder of programs in which PROGRAM is SCRIPT; in
# it $real is the real one.
wrap() {
	mkdir -p "$1"
	local p
	for p in "$BIN"/*; do
		ln -sf "$p" "$1/${p##*/}"
	done
	rm -f "$1/$2"
	printf '#!/usr/bin/env bash\nset -euo pipefail\nreal=%s\n%s\n' "$BIN/$2" "$3" >"$1/$2"
	chmod +x "$1/$2"
}

# default_set: builds the default data set into $BUILD/testdata, once for all
# test files, and again only where make finds it stale.
default_set() {
	(
		flock 8
		build "$BUILD/testdata"
	) 8>"$BUILD/testdata.lock" 3>&-
}

#!/usr/bin/env bash
# battery.sh CASE PROGRAM: asks a program one question of battery.bats. It is a
# process of its own because bash ignores `set -e` in a function whose status is
# asked for.
# shellcheck disable=SC2154 # helper.bash sets out and err
set -euo pipefail
cd "${0%/*}"
# shellcheck source-path=SCRIPTDIR source=helper.bash
. ./helper.bash

# input PROGRAM: the name of a file that it reads.
input() {
	case $1 in
	plan | space) echo "$BATS_FILE_TMPDIR/tasks" ;;
	simulate) echo "$BATS_FILE_TMPDIR/planned" ;;
	score) echo "$BATS_FILE_TMPDIR/simulated" ;;
	reward) echo "$BATS_FILE_TMPDIR/scored" ;;
	*) echo "$BATS_FILE_TMPDIR/episodes" ;;
	esac
}

# call PROGRAM ARGUMENT…: the program with the options that it needs.
call() {
	local p=$1
	shift
	case $p in
	shard) shard --join "$@" ;;
	*) "$p" "$@" ;;
	esac
}

check_help() {
	status 0 "$1" --help
	[[ -s $out && ! -s $err ]] || fail "$1 --help: on stdout, nothing on stderr"
	head -n 1 "$out" | grep -q "^usage: $1" || fail "$1 --help begins with: $(head -n 1 "$out")"
	cp "$out" "$out.long"
	status 0 "$1" -h
	cmp "$out" "$out.long"
	status 0 "$1" --version
	grep -qE "^$1 [0-9]+\.[0-9]+\.[0-9]+ \((gcc|clang) [0-9.]+, cJSON [0-9.]+\)$" "$out" || fail "$(cat "$out")"
}

check_usage() {
	status 2 "$1" --no-such-option </dev/null
	[[ ! -s $out ]] || fail "$1: usage errors do not go to stdout"
	grep -q "^$1: " "$err"
	said "$1: try '$1 --help'"
}

check_empty() {
	status 0 call "$1" /dev/null
	[[ ! -s $out && ! -s $err ]] || fail "$1: prints something for nothing"
}

# Rows before a bad one are whole and printed.
check_garbage() {
	local in=$BATS_TEST_TMPDIR/in
	{ head -n 2 "$(input "$1")"; echo '{"index":2,'; tail -n 1 "$(input "$1")"; } >"$in"
	status 1 call "$1" "$in"
	grep -q "^$1: $in:3: " "$err" || fail "$(cat "$err")"
	case $1 in shard | stats | lint | space) return ;; esac
	(($(wc -l <"$out") == 2)) || fail "$1: $(wc -l <"$out") rows printed before the bad one"
	status 1 "$1" <"$in"
	grep -q "^$1: -:3: " "$err" || fail "$(cat "$err")"
}

check_unfinished() {
	local in=$BATS_TEST_TMPDIR/in
	status 0 call "$1" "$(input "$1")"
	cp "$out" "$out.all"
	head -c -1 "$(input "$1")" >"$in"
	status 0 call "$1" "$in"
	cmp "$out" "$out.all"
}

check_nul() {
	local in=$BATS_TEST_TMPDIR/in
	printf '{"x":"a\0b"}\n' >"$in"
	status 1 call "$1" "$in"
	head -n 1 "$(input "$1")" | sed 's/^{/{"x":"a\\u0000b",/' >"$in"
	status 1 call "$1" "$in"
}

check_duplicate() {
	local in=$BATS_TEST_TMPDIR/in
	head -n 1 "$(input "$1")" | sed 's/^{/{"index":7,/' >"$in"
	status 1 call "$1" "$in"
	grep -q ":1: .*'index'" "$err" "$out" || fail "$(cat "$err")"
}

# 10 MB on one line, deep nesting, half a character: refused at once.
check_huge() {
	local in=$BATS_TEST_TMPDIR/in
	{ printf '{"index":0,"x":"'; head -c 10000000 /dev/zero | tr '\0' a; printf '"}\n'; } >"$in"
	status 1 call "$1" "$in"
	{ printf '{"index":0,"x":'; head -c 100000 /dev/zero | tr '\0' '['; printf '\n'; } >"$in"
	status 1 call "$1" "$in"
	printf '{"index":0,"x":"\xc3"}\n' >"$in"
	status 1 call "$1" "$in"
	printf '{"index":0,"x":1e999}\n' >"$in"
	status 1 call "$1" "$in"
}

check_full() {
	local status=0
	if [[ $1 == taskgen ]]; then
		taskgen -n 3 >/dev/full 2>"$BATS_TEST_TMPDIR/err" || status=$?
	else
		call "$1" "$(input "$1")" >/dev/full 2>"$BATS_TEST_TMPDIR/err" || status=$?
	fi
	((status == 3)) || fail "$1: exit $status on a full disk"
	grep -qx "$1: cannot write '<stdout>': No space left on device" "$BATS_TEST_TMPDIR/err" || fail "$(cat "$BATS_TEST_TMPDIR/err")"
}

# Many rows into a reader that takes one byte. The parent ignores SIGPIPE, as
# Python and some shells do.
check_closed() {
	local d=$BATS_TEST_TMPDIR cmd
	case $1 in
	taskgen) cmd=(taskgen -n 20000) ;;
	shard)
		awk 'BEGIN { for (k = 0; k < 50000; k++) printf "{\"index\":%d,\"episode_id\":\"e%d\"}\n", k, k }' >"$d/many"
		cmd=(shard --join "$d/many")
		;;
	*)
		for _ in {1..40}; do cat "$(input "$1")"; done >"$d/many"
		cmd=("$1" "$d/many")
		;;
	esac
	(
		trap '' PIPE
		set +o pipefail
		{ s=0; timeout 60 "${cmd[@]}" 2>"$d/err" || s=$?; echo $s >"$d/status"; } | head -c 1 >"$d/byte"
	)
	[[ $(<"$d/byte") == '{' && $(<"$d/status") == 141 ]] || fail "$1: exit $(cat "$d/status") on a closed pipe"
	[[ ! -s $d/err ]] || fail "$1: says $(cat "$d/err")"
}

check_missing_file() {
	status 3 call "$1" "$BATS_TEST_TMPDIR/no-such-file"
	grep -q "^$1: cannot .*'.*no-such-file': No such file or directory$" "$err" || fail "$(cat "$err")"
}

check_twice() {
	local in
	in=$(input "$1")
	[[ $1 != taskgen ]] || in=-qn24
	status 0 call "$1" "$in"
	cp "$out" "$out.first"
	status 0 call "$1" "$in"
	cmp "$out" "$out.first"
	[[ ! -s $err ]] || fail "$1: says $(cat "$err")"
}

check_homomorphism() {
	local in d=$BATS_TEST_TMPDIR
	in=$(input "$1")
	head -n 7 "$in" >"$d/a"
	tail -n +8 "$in" >"$d/b"
	"$1" "$in" >"$d/whole"
	{ "$1" "$d/a"; "$1" <"$d/b"; } | cmp - "$d/whole"
	"$1" "$d/a" - <"$d/b" | cmp - "$d/whole"
}

check_locale() {
	local in
	in=$(input "$1")
	[[ $1 != taskgen ]] || in=-qn24
	status 0 call "$1" "$in"
	cp "$out" "$out.first"
	local join=()
	[[ $1 != shard ]] || join=(--join)
	status 0 env TZ=Asia/Kolkata LC_ALL=de_DE.UTF-8 LANG=tr_TR.UTF-8 "$1" "${join[@]}" "$in"
	cmp "$out" "$out.first"
	status 0 env -i -C / LC_ALL=C.UTF-8 "$BIN/$1" "${join[@]}" "$in"
	cmp "$out" "$out.first"
}

check_rejects() {
	local d=$BATS_TEST_TMPDIR
	{ head -n 1 "$(input "$1")"; echo garbage; tail -n 1 "$(input "$1")"; } >"$d/in"
	{ head -n 1 "$(input "$1")"; tail -n 1 "$(input "$1")"; } >"$d/good"
	status 0 "$1" "$d/good"
	cp "$out" "$d/want"
	status 1 "$1" --keep-going --rejects "$d/bad" "$d/in"
	cmp "$out" "$d/want"
	[[ $(cat "$d/bad") == garbage ]] || fail "$1: rejects: $(cat "$d/bad")"
	status 2 "$1" --keep-going "$d/in"
	status 2 "$1" --rejects "$d/bad" "$d/in"
}

check_unknown_keys() {
	local d=$BATS_TEST_TMPDIR
	head -n 1 "$(input "$1")" >"$d/plain"
	sed 's#^{#{"x-note":{"b":[1,2.5,null,"\\u00e9\\/"],"a":true},#' "$d/plain" >"$d/noted"
	if [[ $1 == lint ]]; then
		status 1 lint "$d/noted"
		return
	fi
	status 0 "$1" "$d/plain"
	sed 's#^{#{"x-note":{"b":[1,2.5,null,"é/"],"a":true},#' "$out" >"$d/want"
	status 0 "$1" "$d/noted"
	cmp "$out" "$d/want"
}

"check_$1" "$2"

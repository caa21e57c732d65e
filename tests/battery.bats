#!/usr/bin/env bats
# The same questions (battery.sh) to every program. A cell of the table is `yes`,
# or the number of the reason why the question is none for that program.
load helper

#          taskgen plan simulate score reward shard stats space lint
MATRIX="
help           yes  yes  yes      yes   yes    yes   yes   yes   yes
usage          yes  yes  yes      yes   yes    yes   yes   yes   yes
empty          1    yes  yes      yes   yes    2     3     yes   yes
garbage        1    yes  yes      yes   yes    yes   yes   yes   yes
unfinished     1    yes  yes      yes   yes    4     yes   yes   yes
nul            1    yes  yes      yes   yes    yes   yes   yes   yes
duplicate      1    yes  yes      yes   yes    5     yes   yes   yes
huge           1    yes  yes      yes   yes    yes   yes   yes   yes
full           yes  yes  yes      yes   yes    yes   yes   yes   6
closed         yes  yes  yes      yes   yes    yes   7     yes   6
missing_file   1    yes  yes      yes   yes    yes   yes   yes   yes
twice          yes  yes  yes      yes   yes    yes   yes   yes   yes
homomorphism   8    yes  yes      yes   yes    9     10    yes   11
locale         yes  yes  yes      yes   yes    yes   yes   yes   yes
rejects        1    yes  yes      yes   yes    12    12    yes   12
unknown_keys   1    yes  yes      yes   yes    13    13    14    yes
"
# 1  reads nothing
# 2  nothing to join is a mistake of the caller: shard.bats
# 3  an empty set has statistics too: stats.bats
# 4  a torn last line is what --join is there to refuse: shard.bats
# 5  --join reads two keys of a row and leaves the rest alone
# 6  prints nothing when all is well
# 7  prints one row of less than a pipe's buffer
# 8  its law is over ranges: below
# 9  joining needs the rows in order: shard.bats
# 10 its law is --merge: below
# 11 one verdict over the whole input; prints no rows
# 12 works on whole files: the first bad row ends it
# 13 does not print rows
# 14 prints candidate rows, which are new

setup_file() {
	local d=$BATS_FILE_TMPDIR
	taskgen -n 24 >"$d/tasks"
	plan "$d/tasks" >"$d/planned"
	simulate "$d/planned" >"$d/simulated"
	score "$d/simulated" >"$d/scored"
	reward "$d/scored" >"$d/episodes"
}

# ask CASE: asks each program that has a `yes` in the row, all of them, and fails
# with the names of those that do not answer well.
ask() {
	local case=$1 row p cell bad=() k=0
	row=$(awk -v c="$case" '$1 == c' <<<"$MATRIX")
	[[ -n $row ]] || fail "no row '$case' in the table"
	for p in $ALL_PROGRAMS; do
		k=$((k + 1))
		cell=$(awk -v k=$((k + 1)) '{ print $k }' <<<"$row")
		[[ $cell == yes ]] || continue
		mkdir -p "$BATS_TEST_TMPDIR/$p"
		BATS_TEST_TMPDIR=$BATS_TEST_TMPDIR/$p "$ROOT/tests/battery.sh" "$case" "$p" || bad+=("$p")
	done
	((${#bad[@]} == 0)) || fail "$case: ${bad[*]}"
}

@test "--help and --version go to stdout and exit 0" { ask help; }

@test "an unknown option exits 2 and points to --help" { ask usage; }

@test "an empty input gives an empty output" { ask empty; }

@test "garbage on line 3 is named with file and line, the rows before it are whole" { ask garbage; }

@test "a missing final newline is accepted" { ask unfinished; }

@test "a NUL byte or an escaped one is a bad row" { ask nul; }

@test "a duplicate key is a bad row" { ask duplicate; }

@test "huge, deep, badly encoded and infinite rows are bad rows" { ask huge; }

@test "a full disk exits 3 with a message" { ask full; }

@test "a closed pipe ends a program silently, also where the parent ignores SIGPIPE" { ask closed; }

@test "a file that cannot be read exits 3" { ask missing_file; }

@test "the same input gives the same bytes, and nothing on stderr" { ask twice; }

@test "f(a) f(b) = f(a b)" { ask homomorphism; }

@test "time zone, locale and folder change no byte" { ask locale; }

@test "--keep-going --rejects sets bad rows aside, goes on and exits 1" { ask rejects; }

@test "unknown keys keep their place and value; lint names them" { ask unknown_keys; }

@test "taskgen: the n-th task is the same whatever range is asked for" {
	taskgen -n 50 >"$BATS_TEST_TMPDIR/all"
	{ taskgen -n 20; taskgen --start 20 -n 30; } | cmp - "$BATS_TEST_TMPDIR/all"
	{ taskgen --split holdout -n 7; taskgen --split holdout --start 7 -n 5; } |
		cmp - <(taskgen --split holdout -n 12)
}

@test "stats: partial statistics merge to the whole, in any order" {
	local d=$BATS_TEST_TMPDIR in=$BATS_FILE_TMPDIR/episodes
	head -n 9 "$in" >"$d/a"
	tail -n +10 "$in" | head -n 5 >"$d/b"
	tail -n +15 "$in" >"$d/c"
	for f in a b c; do
		stats --partial "$d/$f" >"$d/$f.part"
	done
	stats "$in" >"$d/whole"
	stats --merge "$d/c.part" "$d/a.part" "$d/b.part" | cmp - "$d/whole"
	stats "$d/a" "$d/b" "$d/c" | cmp - "$d/whole"
}

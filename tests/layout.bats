#!/usr/bin/env bats
# The house: who includes whom, who links what, where things lie.
load helper

setup() {
	cd "$ROOT"
}

# What a layer may include, itself and its own tables left out.
knows() {
	case $1 in
	base) echo ;;
	row | gpu | kernels) echo base ;;
	ops) echo base gpu kernels ;;
	model) echo base gpu kernels ops ;;
	episode) echo base row gpu kernels ops ;;
	swarm) echo base gpu kernels ops model episode ;;
	gpurun) echo base row gpu kernels ops episode ;;
	esac
}

@test "includes run downward only" {
	local layer file to bad=
	for layer in base row gpu kernels ops model episode swarm gpurun; do
		[[ -d src/$layer ]] || continue
		while IFS=: read -r file to; do
			[[ " $layer $(knows "$layer") " == *" $to "* ]] || bad+="$file includes $to/"$'\n'
		done < <(grep -oE '^#include "[a-z]+/' src/"$layer"/*.[ch] src/"$layer"/*.def 2>/dev/null | sed 's/#include "//; s|/$||' | sort -u)
	done
	[[ -z $bad ]] || fail "$bad"
}

@test "swarm knows no JSON: no file of row/ is behind its objects" {
	[[ -d src/swarm ]] || fail "no src/swarm"
	none grep -l 'src/row/' "$BUILD"/obj/swarm/*.d
}

@test "cJSON.h is included by the facade alone, its case-blind lookups nowhere" {
	[[ $(grep -rlE '#include *[<"].*cJSON\.h' src tests --include='*.[ch]' | sort) == \
		$'src/etc/cjson_loop.c\nsrc/row/json.c' ]]
	none grep -rnE 'cJSON_(GetObjectItem|HasObjectItem|ReplaceItemInObject|DetachItemFromObject|DeleteItemFromObject) *\(' src tests --include='*.[ch]'
}

@test "score, reward, lint and shard hold no symbol of swarm or model" {
	nm --defined-only "$BUILD"/lib/swarm.a "$BUILD"/lib/model.a 2>/dev/null |
		awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | sort -u >"$BATS_TEST_TMPDIR/player"
	[[ -s $BATS_TEST_TMPDIR/player ]]
	local p
	for p in score reward lint shard; do
		nm --defined-only "$BIN/$p" | awk '{ print $3 }' | sort -u >"$BATS_TEST_TMPDIR/own"
		[[ -z $(comm -12 "$BATS_TEST_TMPDIR/own" "$BATS_TEST_TMPDIR/player") ]] ||
			fail "$p: $(comm -12 "$BATS_TEST_TMPDIR/own" "$BATS_TEST_TMPDIR/player")"
	done
	# The question is a real one: simulate has them.
	nm --defined-only "$BIN/simulate" | awk '{ print $3 }' | sort -u >"$BATS_TEST_TMPDIR/own"
	[[ -n $(comm -12 "$BATS_TEST_TMPDIR/own" "$BATS_TEST_TMPDIR/player") ]]
}

@test "of libm only what IEEE 754 fixes; no clock, environment, locale or random numbers" {
	[[ -z ${SANITIZED-} ]] || skip "the sanitizers' own run time is in the programs"
	local p
	for p in $ALL_PROGRAMS; do
		nm -u "$BIN/$p" | sed 's/.* U //; s/@.*//' | sort -u >"$BATS_TEST_TMPDIR/undefined"
		# Every function of libm that this machine has, less the exact ones.
		comm -12 "$BATS_TEST_TMPDIR/undefined" <(nm -D --defined-only "$(ldd "$BIN/$p" | awk '$1 ~ /^libm\./ { print $3; f = 1 } END { if (!f) print "/lib/x86_64-linux-gnu/libm.so.6" }')" |
			sed 's/.* //; s/@.*//' | sort -u) | grep -vxE '(sqrt|frexp|ldexp|floor|scalbn|_.*)' >"$BATS_TEST_TMPDIR/inexact" || true
		[[ ! -s $BATS_TEST_TMPDIR/inexact ]] || fail "$p uses $(cat "$BATS_TEST_TMPDIR/inexact")"
		none grep -xE 'rand|srand|random|srandom|drand48|getenv|secure_getenv|setlocale|gettimeofday|time|localtime(_r)?|getpid|gethostname|uname' "$BATS_TEST_TMPDIR/undefined"
	done
	# The clock serves progress, which goes to a terminal only, and bench, which measures.
	[[ $(grep -rlE '\b(clock_gettime|clock)\(' src --include='*.c' | sort | tr '\n' ' ') == "src/gpurun/host.c src/row/progress.c " ]]
}

@test "only base/die.c, the option parser and main leave the process or write to stderr" {
	none_but '^src/(base/(die|opt)|row/(filter|source|loop|row)|etc/.*|gpurun/.*)\.c' grep -nE '\b(exit|_exit|abort) *\(' src/*/*.c
	none_but '^src/(base/(die|opt)|row/progress|etc/.*|gpurun/.*)\.c' grep -nE 'fprintf\(stderr|fputs\([^,]*, stderr|perror\(' src/*.c src/*/*.c
}

@test "every header compiles alone" {
	local h bad=
	for h in src/*/*.h; do
		gcc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Isrc -I"$BUILD" -fsyntax-only -x c "$h" 2>"$BATS_TEST_TMPDIR/log" ||
			bad+="$h: $(head -n 1 "$BATS_TEST_TMPDIR/log")"$'\n'
	done
	[[ -z $bad ]] || fail "$bad"
}

@test "the top level holds what the plan says" {
	git rev-parse --git-dir >/dev/null 2>&1 || skip "no git repository"
	local f bad=
	for f in $(git ls-files -co --exclude-standard | cut -d/ -f1 | sort -u); do
		case $f in
		.ci | .clang-format | .gitattributes | .gitignore | LICENSE | Makefile | README.md | data | pipeline.mk | src | tests) ;;
		*) bad+=" $f" ;;
		esac
	done
	[[ -z $bad ]] || fail "not of the plan:$bad"
	for f in $(git ls-files -co --exclude-standard data holdout | cut -d/ -f1,2 | sort -u); do
		[[ $f == data/samples || $f == data/measured ]] || fail "$f is built, not committed"
	done
}

@test "a program is one file at the top of src, with tests of its own" {
	[[ $(cd src && echo *.c | tr ' ' '\n' | sed 's/\.c$//' | grep -v '^bench' | tr '\n' ' ') == \
		"$(tr ' ' '\n' <<<"$ALL_PROGRAMS" | sort | tr '\n' ' ')" ]]
	local p
	for p in $ALL_PROGRAMS; do
		[[ -e tests/$p.bats ]] || fail "no tests/$p.bats"
		grep -q '^int main(' "src/$p.c" || fail "no main in src/$p.c"
	done
	none_but '^src/(etc|gpurun)/|^src/model/check.c$' grep -lE '^int main\(' src/*/*.c
}

@test "nothing is registered by hand: a kernel, op or scenario is found by its place" {
	local f
	for f in src/swarm/scenario_*.c; do
		f=${f##*/scenario_}
		grep -qx "SCENARIO(${f%.c})" "$BUILD/scenarios.inc"
	done
	(($(wc -l <"$BUILD/scenarios.inc") == 4))
	(($(grep -c '^	{' "$BUILD/kernels.inc") == $(ls src/kernels/*/*.cu src/kernels/*/*.py | wc -l)))
}

@test "C sources: block comments, tabs, no trailing blanks" {
	# A marker of a kernel file may be spoken of in a comment or stand in a string.
	none_but '^[^:]*:[0-9]*:.*(\*.*//|"[^"]*//)' grep -nE '//' src/*.[ch] src/*/*.[ch] tests/*.c tests/unit/*.[ch]
	none grep -nE '[ 	]+$' src/*.[ch] src/*/*.[ch] src/etc/* Makefile pipeline.mk tests/*.bats tests/*.sh tests/*.bash
}

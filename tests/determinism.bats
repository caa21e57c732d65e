#!/usr/bin/env bats
# One small data set, one SHA256SUMS: whatever compiles or runs the programs.
load helper

KNOBS="EPISODES=48 SHARD_SIZE=16"

setup_file() {
	# shellcheck disable=SC2086
	build "$BATS_FILE_TMPDIR/ref" $KNOBS
}

# with COMPILER CFLAGS: builds the programs anew in a folder of their own.
with() {
	local d=$BATS_TEST_TMPDIR
	make -C "$ROOT" --no-print-directory -s -j2 CC="$1" CFLAGS="$2" BUILD="$d/build" BIN="$d/bin" programs 3>&-
	# shellcheck disable=SC2086
	BIN=$d/bin build "$d/set" $KNOBS
	cmp "$d/set/SHA256SUMS" "$BATS_FILE_TMPDIR/ref/SHA256SUMS"
}

@test "gcc -O0 gives the same bytes" { with gcc -O0; }

@test "gcc -O3 gives the same bytes" { with gcc -O3; }

@test "clang gives the same bytes" {
	tool clang
	with clang -O2
}

@test "a processor without FMA and AVX gives the same bytes" {
	# shellcheck disable=SC2086
	GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA_Usable,-FMA,-FMA4,-AVX512F_Usable,-AVX512F,-AVX_Usable,-AVX \
		build "$BATS_TEST_TMPDIR/set" $KNOBS
	cmp "$BATS_TEST_TMPDIR/set/SHA256SUMS" "$BATS_FILE_TMPDIR/ref/SHA256SUMS"
}

@test "memory that is not zero gives the same bytes" {
	# shellcheck disable=SC2086
	MALLOC_PERTURB_=165 build "$BATS_TEST_TMPDIR/set" $KNOBS
	cmp "$BATS_TEST_TMPDIR/set/SHA256SUMS" "$BATS_FILE_TMPDIR/ref/SHA256SUMS"
}

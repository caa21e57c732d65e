#!/usr/bin/env bats
# What README.md prints is what its commands print.
load helper

@test "the README's worked queries print what it says" {
	BIN=$BIN "$ROOT/tests/readme.sh" "$ROOT/README.md" >"$BATS_TEST_TMPDIR/README.md"
	if [[ -n ${UPDATE-} ]]; then
		cp "$BATS_TEST_TMPDIR/README.md" "$ROOT/README.md"
	fi
	diff "$ROOT/README.md" "$BATS_TEST_TMPDIR/README.md"
}

@test "the README names every program, scheme, scenario and exit code" {
	for word in $ALL_PROGRAMS; do
		grep -qw "$word" "$ROOT/README.md" || fail "README.md does not name $word"
	done
	for word in $(reward --list | grep -oE '^[a-z]+$'); do
		grep -q "^| \`$word\` |" "$ROOT/README.md" || fail "README.md has no scheme $word"
	done
}

@test "the README's paths exist" {
	for path in $(grep -oE '`(src|tests|data/README)[a-z_/.]+`' "$ROOT/README.md" | tr -d '`'); do
		[[ $path == data/* || -e $ROOT/$path || -e $ROOT/${path%.*} ]] || fail "README.md: no $path"
	done
}

@test "the README's table of measured kernels is what make gpu-report prints" {
	make -s -C "$ROOT" gpu-report >"$BATS_TEST_TMPDIR/report"
	[[ $(wc -l <"$BATS_TEST_TMPDIR/report") -gt 20 ]]
	none grep -vxF -f "$ROOT/README.md" "$BATS_TEST_TMPDIR/report"
}

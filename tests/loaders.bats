#!/usr/bin/env bats
# What a user's loader makes of the built set: DuckDB reads it, with and without
# the types that the card declares.
load helper

# The default data set, which dataset.bats makes and this file reads.
SET=$BUILD/testdata

setup_file() {
	default_set
	command -v npm node >/dev/null || return 0
	mkdir -p "$BUILD/loaders"
	cp "$ROOT"/tests/loaders/* "$BUILD/loaders/"
	# No network, no DuckDB: then, and only then, the tests are skipped.
	if [[ ! -e $BUILD/loaders/node_modules/@duckdb/node-api/package.json ]]; then
		(cd "$BUILD/loaders" && npm ci --no-audit --no-fund --loglevel=error) >"$BATS_FILE_TMPDIR/npm" 2>&1 || true
	fi
}

setup() {
	tool node npm
	if [[ ! -d $BUILD/loaders/node_modules ]]; then
		grep -qE 'ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH' "$BATS_FILE_TMPDIR/npm" ||
			fail "$(tail -n 5 "$BATS_FILE_TMPDIR/npm")"
		skip "no way to the npm registry"
	fi
	duckdb() { node "$BUILD/loaders/check.mjs" "$@"; }
}

@test "the train config has 2400 rows, the hold-out 512, and every column is read" {
	[[ $(duckdb read "$SET/README.md" episodes "$SET"/batches/batch_*.jsonl) == 2400 ]]
	[[ $(duckdb read "$SET/README.md" holdout "$SET/tasks_holdout.jsonl") == 512 ]]
}

@test "the types inferred from any one shard are those of all" {
	local f bad=
	duckdb types "$SET"/batches/batch_*.jsonl >"$BATS_TEST_TMPDIR/all"
	(($(wc -l <"$BATS_TEST_TMPDIR/all") > 80))
	for f in "$SET"/batches/batch_*.jsonl; do
		duckdb types "$f" >"$BATS_TEST_TMPDIR/one"
		# Of the open maps a shard may lack a key; what it has is of the same type.
		bad+=$(diff "$BATS_TEST_TMPDIR/all" "$BATS_TEST_TMPDIR/one" | grep '^[<>]' |
			grep -vE '^< (shape|messages\[\]\.(params|region))\.' | sed "s|^|${f##*/}: |" || true)
	done
	[[ -z $bad ]] || fail "$bad"
}

@test "the card declares every key of the data with its type" {
	local undeclared
	undeclared=$(duckdb keys "$SET/README.md" episodes "$SET"/batches/batch_*.jsonl)
	undeclared+=$(duckdb keys "$SET/README.md" holdout "$SET/tasks_holdout.jsonl")
	[[ -z $undeclared ]] || fail "$undeclared"
}

@test "no top-level key sets off a loader's agent-trace reader" {
	jq -e -s 'all(.[]; (has("type") or has("payload") or has("message") or has("cwd")) | not)' \
		<(head -n 3 "$SET/batches/batch_000.jsonl") >"$BATS_TEST_TMPDIR/out"
}

#!/usr/bin/env bats
# shard: cutting a stream into files, joining them again, and every refusal.
# Needs bin/shard; BIN names another folder of programs.

bats_require_minimum_version 1.5.0

setup() {
	export LC_ALL=C
	shard=${BIN:-$BATS_TEST_DIRNAME/../bin}/shard
	cd "$BATS_TEST_TMPDIR"
	rows 0 25 >in.jsonl
}

# Rows FROM .. TO-1, one with all that could mislead a scanner.
rows() {
	local i
	for ((i = $1; i < $2; i++)); do
		printf '{"episode_id":"e_%d","messages":[{"index":%d,"text":"\\"index\\":7,}]{\\\\"}],' "$i" $((i * 7))
		printf '"note":"%0300d \\n","index":%d,"seed":"00ff"}\n' "$i" "$i"
	done
}

# fails CODE MESSAGE ARGS...: the exit code and the first line of stderr.
fails() {
	local code=$1 message=$2
	shift 2
	run -"$code" --separate-stderr "$shard" "$@"
	[ "${stderr_lines[0]}" = "shard: $message" ] || {
		printf 'wanted: shard: %s\ngot:    %s\n' "$message" "${stderr_lines[0]}"
		return 1
	}
}

@test "--help goes to stdout and names each option" {
	run -0 --separate-stderr "$shard" --help
	[ -z "$stderr" ]
	for word in --split --join --size --dir --prefix --force 'default 100' 'default batch_'; do
		[[ $output == *"$word"* ]]
	done
}

@test "--version names program, version, compiler and cJSON" {
	run -0 "$shard" --version
	[[ $output =~ ^shard\ [0-9.]+\ \((gcc|clang)\ [0-9.]+,\ cJSON\ [0-9.]+\)$ ]]
}

@test "usage errors exit 2" {
	fails 2 "one of --split and --join is needed" in.jsonl
	fails 2 "one of --split and --join is needed" --split --join in.jsonl
	fails 2 "--split needs --dir" --split in.jsonl
	fails 2 "--join needs files" --join
	fails 2 "--size: not within 1 and 1000000000 '0'" --split --dir d --size 0 in.jsonl
	fails 2 "--size: no integer 'x'" --split --dir d --size x in.jsonl
	fails 2 "--prefix: no beginning of a file name 'a/b'" --split --dir d --prefix a/b in.jsonl
	fails 2 "unknown option '--frob'" --frob
	[ ! -e d ]
}

@test "split cuts into numbered files of N rows, the last one shorter" {
	run -0 "$shard" --split --size 10 --dir d in.jsonl
	[ -z "$output" ]
	[ "$(ls d)" = $'batch_000.jsonl\nbatch_001.jsonl\nbatch_002.jsonl' ]
	cat d/batch_000.jsonl d/batch_001.jsonl d/batch_002.jsonl | cmp - in.jsonl
	rows 10 20 | cmp - d/batch_001.jsonl
}

@test "split of a multiple of N leaves no empty file" {
	rows 0 20 | "$shard" --split --size 10 --dir d
	[ "$(ls d)" = $'batch_000.jsonl\nbatch_001.jsonl' ]
}

@test "split takes several files as one stream, and --prefix" {
	rows 0 7 >a
	rows 7 25 >b
	"$shard" --split --size 10 --dir d --prefix x- a b
	cat d/x-000.jsonl d/x-001.jsonl d/x-002.jsonl | cmp - in.jsonl
}

@test "split of nothing makes nothing" {
	run -0 "$shard" --split --dir d /dev/null
	[ -z "$(ls d)" ]
}

@test "split mends a missing last newline, but not a torn row" {
	printf '{"a":1}\n{"a":2}' | "$shard" --split --dir d
	printf '{"a":1}\n{"a":2}\n' | cmp - d/batch_000.jsonl
	printf '{"a":1}\n{"a":' >torn
	fails 1 "torn:2: torn last line '{\"a\":'" --split --dir e torn
	[ -z "$(ls -A e)" ]
}

@test "split keeps whole files and removes the half one at a bad row" {
	{ rows 0 15; echo '{"a":01}'; } >bad
	fails 1 "bad:16: unexpected text at byte 7 '1}'" --split --size 10 --dir d bad
	[ "$(ls -A d)" = batch_000.jsonl ]
	rows 0 10 | cmp - d/batch_000.jsonl
}

@test "split refuses to overwrite without --force" {
	mkdir d
	echo keep >d/batch_001.jsonl
	fails 3 "file exists, try --force 'd/batch_001.jsonl'" --split --size 10 --dir d in.jsonl
	[ "$(cat d/batch_001.jsonl)" = keep ]
	"$shard" --split --size 10 --dir d --force in.jsonl
	rows 10 20 | cmp - d/batch_001.jsonl
}

@test "split reports a folder that cannot be written" {
	touch file
	fails 3 "cannot write 'file/batch_000.jsonl.tmp': Not a directory" --split --dir file in.jsonl
}

@test "join gives the bytes back" {
	"$shard" --split --size 4 --dir d in.jsonl
	"$shard" --join d/*.jsonl >out
	cmp out in.jsonl
	"$shard" --join - <in.jsonl | cmp - in.jsonl
}

@test "join begins with the first file's first index" {
	rows 10 12 >a
	rows 12 14 >b
	"$shard" --join a b >out
	cat a b | cmp - out
}

@test "join refuses a gap, within a file and between files" {
	rows 0 3 >a
	rows 4 6 >b
	fails 1 "b:1: gap: index 3 is missing before '4'" --join a b
	cat a b >c
	fails 1 "c:4: gap: index 3 is missing before '4'" --join c
	"$shard" --join c 2>/dev/null | cmp - a
}

@test "join refuses a wrong order and a file given twice" {
	rows 0 3 >a
	rows 3 6 >b
	fails 1 "a:1: wrong order: index 6 should come, not '0'" --join b a
	fails 1 "a:1: wrong order: index 3 should come, not '0'" --join a a
}

@test "join refuses a repeated episode_id" {
	printf '{"episode_id":"x","index":0}\n{"episode_id":"y","index":1}\n{"episode_id":"x","index":2}\n' >a
	fails 1 "a:3: repeated episode_id '\"x\"'" --join a
}

@test "join takes rows without episode_id" {
	printf '{"task_id":"x","index":0}\n{"task_id":"x","index":1}\n' >a
	"$shard" --join a | cmp - a
}

@test "join refuses torn lines" {
	rows 0 3 >a
	rows 3 4 >b
	size=$(wc -c <a)
	for cut in 1 2 3 50 300; do
		head -c $((size - cut)) a >torn
		run -1 --separate-stderr "$shard" --join torn b
		[[ $stderr == "shard: torn:3: torn last line '"* ]]
	done
	# Two files pasted together after a tear.
	{ head -c $((size - 20)) a; cat b; } >torn
	run -1 --separate-stderr "$shard" --join torn
	[[ $stderr == "shard: torn:3: "*" at byte "* ]]
}

@test "join refuses rows without a proper index" {
	for index in '"0"' -1 1.0 1e3 null 1234567890123456; do
		printf '{"index":%s}\n' "$index" >a
		fails 1 "a:1: field 'index' is no integer '$index'" --join a
	done
	echo '{"messages":[{"index":0}]}' >a
	fails 1 "a:1: missing field 'index'" --join a
	printf '\n' >a
	fails 1 "a:1: blank line ''" --join a
	echo '{"index":0,"index":0}' >a
	fails 1 "a:1: duplicate key 'index'" --join a
}

@test "a missing file exits 3" {
	fails 3 "cannot open 'nowhere': No such file or directory" --join nowhere
	fails 3 "cannot open 'nowhere': No such file or directory" --split --dir d nowhere
}

@test "a full disk exits 3" {
	[ -w /dev/full ] || skip "no /dev/full here"
	run -3 --separate-stderr bash -c '"$1" --join in.jsonl >/dev/full' - "$shard"
	[ "$stderr" = "shard: cannot write '<stdout>': No space left on device" ]
}

@test "a closed pipe ends it silently, even where SIGPIPE was ignored" {
	rows 0 4000 >many
	run -0 --separate-stderr bash -c 'trap "" PIPE; "$1" --join many | head -c 1; [ ${PIPESTATUS[0]} = 141 ]' - "$shard"
	[ -z "$stderr" ]
}

@test "24 000 rows are joined in less than 64 MB" {
	[ -x /usr/bin/time ] || skip "no /usr/bin/time here"
	seq 0 23999 | sed 's/.*/{"episode_id":"episode_&","index":&}/' >many
	/usr/bin/time -f %M -o kb "$shard" --join many | cmp - many
	[ "$(cat kb)" -lt 64000 ]
}

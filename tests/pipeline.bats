#!/usr/bin/env bats
# The data build: what it makes, what it makes again, and what it survives.
load helper

setup() {
	D=$BATS_TEST_TMPDIR/set
	SMALL=(EPISODES=45 SHARD_SIZE=10 JOBS=2)
}

# One small set that every test compares with.
setup_file() {
	build "$BATS_FILE_TMPDIR/ref" EPISODES=45 SHARD_SIZE=10 JOBS=1
}

same_as_ref() {
	cmp "$1/SHA256SUMS" "$BATS_FILE_TMPDIR/ref/SHA256SUMS"
	(cd "$1" && sha256sum --quiet -c SHA256SUMS)
	cmp "$1/README.md" "$BATS_FILE_TMPDIR/ref/README.md"
	[[ -z $(find "$1" -name '*.tmp' -o -name '*.rows*') ]]
}

# A copy of the small set whose files are no older than the programs.
copied() {
	cp -rp "$BATS_FILE_TMPDIR/ref" "$D"
}

# made: the numbers of the batches that the last build made.
made() {
	cat "$D/.stale"
}

# group COMMAND…: starts it as a job of its own, in the state in which a
# terminal's shell would; $group is its process and its group.
group() {
	perl -e 'setpgrp; $SIG{INT} = "DEFAULT"; exec @ARGV or die' "$@" 3>&- >"$BATS_TEST_TMPDIR/log" 2>&1 &
	group=$!
}

# A BIN whose simulate waits until the file go is there.
slow() {
	wrap "$BATS_TEST_TMPDIR/slow" simulate "touch $BATS_TEST_TMPDIR/begun
		while [[ ! -e $BATS_TEST_TMPDIR/go ]]; do sleep 0.05; done; exec \$real \"\$@\""
	# Found fresh by make where the real ones are.
	touch -r "$BIN/simulate" "$BATS_TEST_TMPDIR/slow/simulate"
}

await() {
	local k
	for ((k = 0; k < 600; k++)); do
		[[ ! -e $1 ]] || return 0
		sleep 0.05
	done
	fail "nothing made $1"
}

@test "a build makes the files of the list and nothing else" {
	[[ $(ls "$BATS_FILE_TMPDIR/ref") == $'README.md\nSHA256SUMS\nbatches\nepisodes.jsonl\nstats.json\ntasks_holdout.jsonl' ]]
	[[ $(ls "$BATS_FILE_TMPDIR/ref/batches") == $'batch_000.jsonl\nbatch_001.jsonl\nbatch_002.jsonl\nbatch_003.jsonl\nbatch_004.jsonl' ]]
	cd "$BATS_FILE_TMPDIR/ref"
	sha256sum --quiet -c SHA256SUMS
	[[ $(awk '{ print $2 }' SHA256SUMS) == "$(ls batches/* episodes.jsonl stats.json tasks_holdout.jsonl)" ]]
	cat batches/* | cmp - episodes.jsonl
	(($(wc -l <episodes.jsonl) == 45))
	(($(wc -l <tasks_holdout.jsonl) == 512))
	cmp stats.json <(stats episodes.jsonl)
}

@test "a batch is its recipe, run by hand" {
	taskgen --seed 1 --start 10 -n 10 | plan | simulate | score |
		cmp - "$BATS_FILE_TMPDIR/ref/batches/batch_001.jsonl"
	[[ $(<"$BATS_FILE_TMPDIR/ref/batches/.batch_001.cmd") == \
		"taskgen --seed 1 --start 10 -n 10 | plan | simulate | score" ]]
}

@test "the number of jobs, time zone, locale, folder and umask change no byte" {
	mkdir -p "$BATS_TEST_TMPDIR/else/where/src"
	cp -r "$ROOT/pipeline.mk" "$BATS_TEST_TMPDIR/else/where/"
	cp -r "$ROOT/src/etc" "$BATS_TEST_TMPDIR/else/where/src/"
	cd "$BATS_TEST_TMPDIR/else/where"
	umask 077
	TZ=Asia/Kolkata LC_ALL=de_DE.UTF-8 LANG=tr_TR.UTF-8 SEED=9 OUT=nowhere EPISODES=3 \
		make -f pipeline.mk BIN="$BIN" OUT="$D" EPISODES=45 SHARD_SIZE=10 JOBS=4 3>&-
	same_as_ref "$D"
}

@test "a second build makes nothing" {
	copied
	find "$D" -type f ! -name .stale -printf '%p %T@\n' | sort >"$BATS_TEST_TMPDIR/before"
	build "$D" "${SMALL[@]}"
	[[ -z $(made) ]]
	find "$D" -type f ! -name .stale -printf '%p %T@\n' | sort | cmp - "$BATS_TEST_TMPDIR/before"
}

@test "a deleted batch comes back, alone and the same" {
	copied
	rm "$D/batches/batch_003.jsonl"
	build "$D" "${SMALL[@]}" shard SHARD=3
	[[ $(made) == 003 ]]
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
	rm "$D/batches/batch_000.jsonl" "$D/batches/.batch_002.stats"
	build "$D" "${SMALL[@]}"
	[[ $(made) == "000 002" ]]
	same_as_ref "$D"
	rm "$D/batches/batch_004.jsonl"
	build "$D" "${SMALL[@]}" "$D/batches/batch_004.jsonl"
	[[ $(made) == 004 ]]
	cmp "$D/batches/batch_004.jsonl" "$BATS_FILE_TMPDIR/ref/batches/batch_004.jsonl"
	rm "$D/episodes.jsonl" "$D/stats.json" "$D/tasks_holdout.jsonl" "$D/README.md"
	build "$D" "${SMALL[@]}"
	[[ -z $(made) ]]
	same_as_ref "$D"
}

@test "one batch alone needs no other" {
	build "$D" "${SMALL[@]}" shard SHARD=2
	[[ $(ls "$D" "$D/batches") == *$'\nbatch_002.jsonl' && ! -e $D/episodes.jsonl ]]
	cmp "$D/batches/batch_002.jsonl" "$BATS_FILE_TMPDIR/ref/batches/batch_002.jsonl"
}

@test "a knob makes again exactly the batches whose command it changes" {
	copied
	build "$D" "${SMALL[@]}" EPISODES=48
	[[ $(made) == 004 ]]
	(($(wc -l <"$D/episodes.jsonl") == 48))
	build "$D" "${SMALL[@]}" EPISODES=55
	[[ $(made) == "004 005" ]]
	build "$D" "${SMALL[@]}" EPISODES=20
	[[ -z $(made) ]]
	[[ $(ls -A "$D/batches") == $'.batch_000.cmd\n.batch_000.stats\n.batch_000.sum\n.batch_001.cmd\n.batch_001.stats\n.batch_001.sum\nbatch_000.jsonl\nbatch_001.jsonl' ]]
	(($(wc -l <"$D/episodes.jsonl") == 20 && $(wc -l <"$D/SHA256SUMS") == 5))
	build "$D" "${SMALL[@]}" EPISODES=20 SEED=2
	[[ $(made) == "000 001" ]]
	build "$D" "${SMALL[@]}" EPISODES=20 SEED=2 REWARD=team
	[[ $(made) == "000 001" ]]
	[[ $(jq -r .scheme "$D/episodes.jsonl" | sort -u) == team ]]
	build "$D" "${SMALL[@]}" EPISODES=20 OPS=rmsnorm,rope GPUS=a100,a10 SCENARIO=campaign
	[[ $(made) == "000 001" ]]
	[[ $(jq -r .op "$D/episodes.jsonl" | sort -u) == $'rmsnorm\nrope' ]]
	[[ $(jq -r .gpu "$D/episodes.jsonl" | sort -u) == $'a10\na100' ]]
	[[ $(jq -r .scenario "$D/episodes.jsonl" | sort -u) == campaign ]]
	build "$D" "${SMALL[@]}" EPISODES=45
	same_as_ref "$D"
}

@test "a new program makes again the batches that it runs in" {
	copied
	mkdir "$BATS_TEST_TMPDIR/bin"
	cp -p "$BIN"/* "$BATS_TEST_TMPDIR/bin/"
	touch "$BATS_TEST_TMPDIR/bin/score"
	BIN=$BATS_TEST_TMPDIR/bin build "$D" "${SMALL[@]}"
	[[ $(made) == "000 001 002 003 004" ]]
	same_as_ref "$D"
	touch "$BATS_TEST_TMPDIR/bin/lint"
	BIN=$BATS_TEST_TMPDIR/bin build "$D" "${SMALL[@]}"
	[[ -z $(made) ]]
}

@test "bad knobs are refused before anything is made" {
	status 2 build "$D" EPISODES=0
	said "make: EPISODES is no number from 1: '0'"
	status 2 build "$D" SHARD_SIZE=ten
	said "make: SHARD_SIZE is no number from 1: 'ten'"
	status 2 build "$D" JOBS=-1
	status 2 build "$D" "REWARD=a'b"
	status 2 build "$D" "OPS=rope; true"
	status 2 build "$D" "${SMALL[@]}" shard
	said "make: which shard? as in SHARD=7"
	status 2 build "$D" "${SMALL[@]}" shard SHARD=5
	said "make: no shard 5: there are 0 to 4"
	[[ ! -e $D ]]
	status 2 build "$D" "${SMALL[@]}" OPS=no_such_op
	grep -q "^taskgen: --ops: unknown op 'no_such_op'" "$err"
	status 2 build "$D" "${SMALL[@]}" SCENARIO=no_such_scenario
	status 2 build "$D" "${SMALL[@]}" REWARD=no_such_scheme
	[[ -z $(find "$D" -name '*.jsonl' -o -name '*.tmp') ]]
}

@test "a folder that cannot be made or written is named" {
	status 2 build /dev/null/set "${SMALL[@]}"
	grep -q "/dev/null" "$err"
	mkdir "$D"
	touch "$D/batches"
	status 2 build "$D" "${SMALL[@]}"
	grep -q "$D/batches" "$err"
}

@test "a full disk fails the build, leaves nothing torn, and the next build is whole" {
	mkdir "$D"
	mount -t tmpfs -o size=2m tmpfs "$D" 2>/dev/null || skip "cannot mount a small file system here"
	status 2 build "$D" "${SMALL[@]}" || { umount "$D"; false; }
	grep -q 'No space left on device' "$err" || { umount "$D"; fail "$(cat "$err")"; }
	local torn=0 f
	for f in "$D"/batches/*.jsonl; do
		[[ ! -e $f ]] || cmp -s "$f" "$BATS_FILE_TMPDIR/ref/batches/${f##*/}" || torn=1
	done
	umount "$D"
	((torn == 0))
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
}

@test "a failing stage fails its batch alone, is named, and the rest is kept" {
	wrap "$BATS_TEST_TMPDIR/bad" score '
		IFS= read -r row
		[[ $row != *"\"index\":20,"* ]] || { cat >/dev/null; echo "score: -:3: on purpose" >&2; exit 1; }
		{ printf "%s\n" "$row"; cat; } | $real "$@"'
	BIN=$BATS_TEST_TMPDIR/bad status 2 build "$D" "${SMALL[@]}" JOBS=1
	said "score: -:3: on purpose"
	said "batch 002 failed: exit status 1"
	[[ $(ls "$D/batches") == $'batch_000.jsonl\nbatch_001.jsonl' && ! -e $D/episodes.jsonl && ! -e $D/SHA256SUMS ]]
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
}

@test "a stage that is killed in the middle leaves no batch" {
	wrap "$BATS_TEST_TMPDIR/bad" simulate '$real "$@" | { read -r row; echo "$row"; kill -KILL $$; }'
	BIN=$BATS_TEST_TMPDIR/bad status 2 build "$D" "${SMALL[@]}"
	[[ -z $(ls "$D/batches") ]]
	[[ -z $(find "$D" -name '*.tmp') ]]
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
}

@test "SIGINT to the group ends all of it; the next build reaches the same bytes" {
	slow
	group make -C "$ROOT" -f pipeline.mk BIN="$BATS_TEST_TMPDIR/slow" OUT="$D" "${SMALL[@]}"
	await "$BATS_TEST_TMPDIR/begun"
	kill -INT -- "-$group"
	local status=0
	wait "$group" || status=$?
	((status != 0))
	[[ -z $(ls "$D/batches") ]]
	# Nobody is left who holds the lock.
	touch "$BATS_TEST_TMPDIR/go"
	timeout 10 flock "$D/.lock" true
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
}

@test "SIGKILL to make: a new build is refused while writers live, then reaches the same bytes" {
	slow
	group make -C "$ROOT" -f pipeline.mk BIN="$BATS_TEST_TMPDIR/slow" OUT="$D" "${SMALL[@]}"
	await "$BATS_TEST_TMPDIR/begun"
	kill -KILL "$group"
	wait "$group" || true
	status 2 build "$D" "${SMALL[@]}"
	said "another build holds $D/.lock"
	status 2 build "$D" clean
	said "another build holds $D/.lock"
	touch "$BATS_TEST_TMPDIR/go"
	timeout 60 flock "$D/.lock" true
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
}

@test "SIGKILL to everything: leftovers are removed and the same bytes reached" {
	slow
	group make -C "$ROOT" -f pipeline.mk BIN="$BATS_TEST_TMPDIR/slow" OUT="$D" "${SMALL[@]}"
	await "$BATS_TEST_TMPDIR/begun"
	kill -KILL -- "-$group" || true
	# parallel gives each job a group of its own; they end by the closed pipes.
	touch "$BATS_TEST_TMPDIR/go"
	wait "$group" || true
	timeout 60 flock "$D/.lock" true
	echo torn >"$D/batches/.batch_001.jsonl.tmp"
	echo torn >"$D/.stats.json.tmp"
	build "$D" "${SMALL[@]}"
	same_as_ref "$D"
}

@test "two builds at once: the second is refused, the first is whole" {
	slow
	group make -C "$ROOT" -f pipeline.mk BIN="$BATS_TEST_TMPDIR/slow" OUT="$D" "${SMALL[@]}"
	await "$BATS_TEST_TMPDIR/begun"
	status 2 build "$D" "${SMALL[@]}" SEED=2
	said "another build holds $D/.lock"
	touch "$BATS_TEST_TMPDIR/go"
	wait "$group"
	same_as_ref "$D"
}

@test "make -n tells the commands and makes nothing" {
	status 0 build "$D" "${SMALL[@]}" -n
	grep -q "^taskgen --seed 1 --start 40 -n 5 | plan | simulate | score >$D/batches/batch_004.jsonl" "$out"
	[[ ! -e $D ]]
}

@test "clean removes by list, not what others put there" {
	copied
	mkdir "$D/samples"
	echo mine | tee "$D/samples/a.jsonl" "$D/batches/notes.txt" >"$D/mine.txt"
	build "$D" clean
	[[ $(cd "$D" && find . -type f | sort) == $'./batches/notes.txt\n./mine.txt\n./samples/a.jsonl' ]]
	rm -r "$D"
	build "$D" clean
}

@test "make validate is silent on a set that is well and names what is not" {
	copied
	status 0 build "$D" "${SMALL[@]}" validate
	[[ ! -s $out && ! -s $err ]]
	sed -i '3s/"speedup":\([0-9]\)/"speedup":9\1/' "$D/batches/batch_001.jsonl"
	status 2 build "$D" "${SMALL[@]}" validate
	grep -q "batches/batch_001.jsonl:3: " "$out" "$err"
	grep -q "batches/batch_001.jsonl: FAILED" "$out" "$err"
	rm "$D/batches/batch_004.jsonl"
	status 2 build "$D" "${SMALL[@]}" validate
	rm -r "$D"
	status 2 build "$D" validate
	said "no data set in $D: run make dataset"
}

@test "the help of make names every knob and target" {
	status 0 make -C "$ROOT" --no-print-directory help
	local word
	for word in SEED EPISODES SHARD_SIZE SCENARIO REWARD OPS GPUS OUT JOBS HOSTS HOSTS_BIN \
		dataset shard validate test check perf asan fuzz model-check bench labels sanitize gpu-best gpu-report deps clean; do
		grep -qw -- "$word" "$out" || fail "help does not name $word"
	done
}

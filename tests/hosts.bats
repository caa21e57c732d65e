#!/usr/bin/env bats
# A build that is spread over machines: a real sshd on 127.0.0.1 plays them all.
load helper

# One folder on the host serves all tests.
BATS_NO_PARALLELIZE_WITHIN_FILE=true

setup_file() {
	local d=$BATS_FILE_TMPDIR sshd=/usr/sbin/sshd port
	[[ -x $sshd ]] || return 0
	ssh-keygen -q -t ed25519 -N '' -f "$d/host"
	ssh-keygen -q -t ed25519 -N '' -f "$d/user"
	cp "$d/user.pub" "$d/authorized"
	((EUID)) || mkdir -p /run/sshd
	for port in 20022 20023 20024 20025; do
		cat >"$d/sshd_config" <<-END
			Port $port
			ListenAddress 127.0.0.1
			HostKey $d/host
			PidFile $d/sshd.pid
			AuthorizedKeysFile $d/authorized
			StrictModes no
			UsePAM no
			PasswordAuthentication no
			PermitRootLogin yes
			MaxStartups 100
		END
		"$sshd" -D -f "$d/sshd_config" -E "$d/sshd.log" 3>&- &
		for _ in {1..40}; do
			[[ ! -e $d/sshd.pid ]] || break 2
			kill -0 $! 2>/dev/null || break
			sleep 0.05
		done
	done
	# Two names for the one that answers; at the dead one nobody listens.
	cat >"$d/ssh_config" <<-END
		Host alpha beta
		  HostName 127.0.0.1
		  Port $port
		Host dead
		  HostName 127.0.0.1
		  Port 1
		Host *
		  IdentityFile $d/user
		  IdentitiesOnly yes
		  BatchMode yes
		  StrictHostKeyChecking no
		  UserKnownHostsFile /dev/null
		  LogLevel ERROR
	END
	build "$d/ref" EPISODES=45 SHARD_SIZE=10
}

teardown_file() {
	[[ ! -e $BATS_FILE_TMPDIR/sshd.pid ]] || kill "$(<"$BATS_FILE_TMPDIR/sshd.pid")"
	rm -rf "$HOME/.cache/kernelswarm/$(cd "$BIN" && cat taskgen plan simulate score reward | sha256sum | cut -c 1-16)"
}

setup() {
	[[ -x /usr/sbin/sshd ]] || skip "no sshd on this machine"
	[[ -e $BATS_FILE_TMPDIR/sshd.pid ]] || fail "sshd did not start: $(cat "$BATS_FILE_TMPDIR/sshd.log")"
	D=$BATS_TEST_TMPDIR/set
	SMALL=(EPISODES=45 SHARD_SIZE=10 JOBS=2 HOSTS="$BATS_TEST_TMPDIR/hosts")
}

# hosts [JOBS/]NAME…: writes the file of hosts.
hosts() {
	local h
	for h in "$@"; do
		echo "${h%"${h##*/}"}ssh -F $BATS_FILE_TMPDIR/ssh_config ${h##*/}"
	done >"$BATS_TEST_TMPDIR/hosts"
}

same_as_ref() {
	cmp "$D/SHA256SUMS" "$BATS_FILE_TMPDIR/ref/SHA256SUMS"
	(cd "$D" && sha256sum --quiet -c SHA256SUMS)
	[[ -z $(find "$D" -name '*.tmp' -o -name '*.rows*') ]]
}

@test "two hosts give the same bytes, and both work" {
	hosts alpha 1/beta
	status 0 build "$D" "${SMALL[@]}"
	same_as_ref
	grep -q 'ssh_config alpha' "$D/.joblog"
	grep -q 'ssh_config beta' "$D/.joblog"
}

@test "a host that cannot be reached is left out, its batches go to the others" {
	hosts dead alpha
	status 0 build "$D" "${SMALL[@]}"
	said "host 'dead' cannot be reached: left out"
	same_as_ref
}

@test "no host at all fails with a message" {
	hosts dead
	status 2 build "$D" "${SMALL[@]}"
	said "no host of '$BATS_TEST_TMPDIR/hosts' is left"
	[[ -z $(ls "$D/batches") ]]
	status 2 build "$D" EPISODES=45 SHARD_SIZE=10 HOSTS="$BATS_TEST_TMPDIR/none"
	grep -q "none: No such file or directory" "$err"
}

@test "a host that dies on the way loses its batches to the others" {
	# The second connection to beta is cut while rows are on their way.
	cat >"$BATS_TEST_TMPDIR/ssh-cut" <<-END
		#!/usr/bin/env bash
		set -euo pipefail
		if [[ \$* == *GNU_Parallel* ]]; then
			ssh "\$@" | head -c 5000
			exit 255
		fi
		exec ssh "\$@"
	END
	chmod +x "$BATS_TEST_TMPDIR/ssh-cut"
	{
		echo "1/$BATS_TEST_TMPDIR/ssh-cut -F $BATS_FILE_TMPDIR/ssh_config beta"
		echo "1/ssh -F $BATS_FILE_TMPDIR/ssh_config alpha"
	} >"$BATS_TEST_TMPDIR/hosts"
	status 0 build "$D" "${SMALL[@]}"
	same_as_ref
	# What came from beta before the cut is in no batch.
	none awk -F '\t' '/ssh-cut/ && $7 == 0' "$D/.joblog"
}

@test "a failing remote stage is named; what went well is kept" {
	wrap "$BATS_TEST_TMPDIR/bad" score '
		[[ ${1-} != --version ]] || exec $real --version
		IFS= read -r row
		[[ $row != *"\"index\":20,"* ]] || { cat >/dev/null; echo "score: -:3: on purpose" >&2; exit 1; }
		{ printf "%s\n" "$row"; cat; } | $real "$@"'
	hosts 1/alpha
	status 2 build "$D" "${SMALL[@]}" HOSTS_BIN="$BATS_TEST_TMPDIR/bad"
	said "score: -:3: on purpose"
	grep -q '^batch 002 failed on .*alpha: exit status 1$' "$err"
	[[ $(ls "$D/batches") == $'batch_000.jsonl\nbatch_001.jsonl' && ! -e $D/episodes.jsonl ]]
	status 0 build "$D" "${SMALL[@]}"
	[[ $(<"$D/.stale") == "002 003 004" ]]
	same_as_ref
}

@test "programs of another version are refused" {
	wrap "$BATS_TEST_TMPDIR/old" plan 'echo "plan 0.0.1 (gcc 4.8.0, cJSON 1.7.0)"'
	hosts alpha
	status 2 build "$D" "${SMALL[@]}" HOSTS_BIN="$BATS_TEST_TMPDIR/old"
	said "host 'alpha' has other programs than this machine: left out"
	said "  there: plan 0.0.1"
	[[ -z $(ls "$D/batches") ]]
}

@test "shipped programs that were changed there are refused" {
	hosts alpha
	status 0 build "$D" "${SMALL[@]}" shard SHARD=0
	local there
	there=$HOME/.cache/kernelswarm/$(cd "$BIN" && cat taskgen plan simulate score reward | sha256sum | cut -c 1-16)
	cp "$there/plan" "$BATS_TEST_TMPDIR/plan"
	echo >>"$there/plan"
	status 2 build "$D" "${SMALL[@]}"
	said "host 'alpha' has other programs than this machine: left out"
	cp "$BATS_TEST_TMPDIR/plan" "$there/plan"
	status 0 build "$D" "${SMALL[@]}"
	same_as_ref
}

# hosts.sh: the part of batches.sh that spreads batches over the ssh destinations
# of the file $HOSTS, a line each: [JOBS/]HOST or [JOBS/]COMMAND WITH OPTIONS HOST.
# shellcheck shell=bash disable=SC2154

ssh_command="ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15"
remote_programs=(taskgen plan simulate score reward)

# The programs with the one library that a host may lack, as a tar on stdout.
pack() {
	local lib=() dir
	dir=$(mktemp -d)
	cp "${remote_programs[@]/#/$BIN/}" "$dir"
	mapfile -t lib < <(ldd "$BIN/score" 2>/dev/null | awk '$1 ~ /^libcjson/ { print $3 }')
	[[ -z ${lib[0]-} ]] || cp -L "${lib[@]}" "$dir"
	tar -C "$dir" -cf - .
	rm -rf "$dir"
}

# versions DIR SHELL…: what the programs in a folder of SHELL's machine call
# themselves. Shipped ones have to be ours to the byte, installed ones may come
# from another compiler.
versions() {
	local dir=$1 script
	shift
	script="cd $dir && LD_LIBRARY_PATH=. && export LD_LIBRARY_PATH &&
		for p in ${remote_programs[*]}; do ./\$p --version || exit; done"
	if [[ -z $HOSTS_BIN ]]; then
		script+="; sha256sum ${remote_programs[*]}"
	fi
	"$@" "$script" 2>&1 | awk '{ print $1, $2 }'
}

# prepare SSH…: the host has our programs in $dir when this succeeds.
prepare() {
	local script there
	"$@" true || { echo "host '${*: -1}' cannot be reached: left out" >&2; return 1; }
	if [[ -z $HOSTS_BIN ]]; then
		script="umask 077; mkdir -p ${dir%/*} && d=\$(mktemp -d ${dir%/*}/new.XXXXXX) &&
			tar -C \$d -xf - && { mv -T \$d $dir || [ -e $dir ]; } && rm -rf \$d"
		"$@" "[ -e $dir ]" || pack | "$@" "$script" ||
			{ echo "host '${*: -1}' does not take the programs: left out" >&2; return 1; }
	fi
	there=$(versions "$dir" "$@") || true
	if [[ $there != "$here_versions" ]]; then
		echo "host '${*: -1}' has other programs than this machine: left out" >&2
		diff <(echo "$here_versions") <(echo "$there") | sed -n 's/^</  here:/p; s/^>/  there:/p' >&2
		return 1
	fi
}

there() {
	local line slots words id dir here_versions n=0 status=0 good
	here_versions=$(versions "$(realpath "$BIN")" bash -c)
	id=$(cat "${remote_programs[@]/#/$BIN/}" | sha256sum | cut -c 1-16)
	# shellcheck disable=SC2016 # for the host's shell
	dir=${HOSTS_BIN:-'$HOME/.cache/kernelswarm/'$id}

	: >"$OUT/.hosts"
	while read -r line; do
		[[ -n $line && $line != '#'* ]] || continue
		slots=$jobs
		if [[ $line =~ ^([0-9]+)/(.*)$ ]]; then
			slots=${BASH_REMATCH[1]} line=${BASH_REMATCH[2]}
		fi
		[[ $line == *' '* ]] || line="$ssh_command $line"
		read -ra words <<<"$line"
		if prepare "${words[@]}" </dev/null; then
			echo "$slots/$line" >>"$OUT/.hosts"
			n=$((n + 1))
		fi
	done <"$HOSTS"
	((n)) || { echo "no host of '$HOSTS' is left" >&2; return 1; }

	# Rows come back on stdout, into a file that batch.sh takes when the whole
	# job went well. A batch whose host dies is tried on another.
	for line in "${stale[@]}"; do
		printf '%s\t%s\n' "$line" "$(<"$OUT/batches/.batch_$line.cmd")"
	done | parallel "${options[@]}" --sshloginfile "$OUT/.hosts" -j 100% --retries $((n + 1)) \
		--colsep '\t' --results "$OUT/batches/.batch_{1}.rows" \
		"env LC_ALL=C PATH=$dir:\$PATH LD_LIBRARY_PATH=$dir bash -euo pipefail -c {2}" \
		>/dev/null || status=$?
	mapfile -t good < <(report "${stale[@]}")
	for line in "${stale[@]}"; do
		[[ " ${good[*]} " == *" $line "* ]] || cat "$OUT/batches/.batch_$line.rows.err" >&2 2>/dev/null || true
	done
	printf '%s\n' "${good[@]}" |
		parallel --plain --will-cite --halt soon,fail=1 -j "$jobs" -r src/etc/batch.sh {} fetched
	rm -f "$OUT"/batches/.batch_*.rows*
	((status == 0 && ${#good[@]} == ${#stale[@]}))
}

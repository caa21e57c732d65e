#!/usr/bin/env bash
# readme.sh FILE: FILE with the output in its ```console blocks made again.
# A line `$ COMMAND` is run, in order, in one directory; what stands below it
# until the next is its output.
set -euo pipefail

readme=$(realpath "$1")
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
ln -s "$BIN" bin

console=
while IFS= read -r line; do
	case $console$line in
	'```console') console=1 ;;
	'1```') console= ;;
	'1$ '*)
		printf '%s\n' "$line"
		# head may close a pipe early: its writers' SIGPIPE is no failure.
		bash -c "${line#\$ }" </dev/null
		continue
		;;
	1*) continue ;;
	esac
	printf '%s\n' "$line"
done <"$readme"

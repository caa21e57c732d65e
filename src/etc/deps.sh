#!/usr/bin/env bash
# deps.sh SET: installs what SET (build, data, test, check, perf) lacks on this
# machine, with apt-get; says so, or names what somebody has to install.
set -euo pipefail

packages=()

# need COMMAND PACKAGE…: the packages, unless the command is there.
need() {
	local command=$1
	shift
	command -v "$command" >/dev/null || packages+=("$@")
}

set_build() {
	need "${CC%% *}" "$(basename "${CC%% *}")" libc6-dev
	need ar binutils
	need flock util-linux
	echo '#include <cjson/cJSON.h>' | "${CC%% *}" -E - >/dev/null 2>&1 ||
		packages+=(libc6-dev libcjson-dev)
}

set_data() {
	# moreutils has another parallel, which is no use here.
	parallel --version 2>/dev/null | grep -q 'GNU parallel' || packages+=(parallel)
	need jq jq
	need flock util-linux
}

set_test() {
	set_data
	need bats bats
	need python3 python3
	/usr/bin/python3 -c 'import yaml' 2>/dev/null || packages+=(python3 python3-yaml)
	need node nodejs
	need npm npm
	need ssh openssh-client
	[[ -x /usr/sbin/sshd ]] || packages+=(openssh-server)
}

set_check() {
	need clang-format clang-format
	need shellcheck shellcheck
	need cppcheck cppcheck
	need clang clang
	need bats bats
}

set_perf() {
	set_data
	[[ -x /usr/bin/time ]] || packages+=(time)
}

CC=${CC:-gcc}
case ${1-} in
build | data | test | check | perf) "set_$1" ;;
*)
	echo "usage: deps.sh build|data|test|check|perf" >&2
	exit 2
	;;
esac
((${#packages[@]})) || exit 0

mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
root=()
if ((EUID)); then
	root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || { ((EUID)) && ! sudo -n true 2>/dev/null; }; then
	echo "deps: missing here, and no way to install it (no apt-get, or not root):" >&2
	printf '  %s\n' "${packages[@]}" >&2
	exit 1
fi
echo "deps: installing ${packages[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A machine just born has no package lists; one that has them needs no update.
apt() {
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -y --no-install-recommends install "${packages[@]}" >"$log" 2>&1
}
apt || { "${root[@]}" apt-get update >/dev/null 2>&1 && apt; } || {
	cat "$log" >&2
	echo "deps: cannot install: ${packages[*]}" >&2
	exit 1
}

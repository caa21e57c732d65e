#!/usr/bin/env bash
# nvcc.sh compiles FILE ARCH…   : FILE compiles for all of them
# nvcc.sh refuses FILE ARCH     : it does not
# nvcc.sh reads FILE ARCH       : the front end takes it without a word
# nvcc.sh says FILE ARCH LINE MESSAGE : the first error is MESSAGE on LINE
# nvcc.sh declines FILE ARCH LAUNCHER POINTERS AXIS… : its launcher refuses that shape
# nvcc.sh python FILE LINE KIND : the same of py_compile; LINE 0: it compiles
# One line on stdout where that is not so. A job of kernels.bats.
set -euo pipefail
what=$1 file=$2
shift 2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
name=${file##*/}
[[ -s $file ]] || { echo "$name: no source"; exit; }

# What was answered well is not asked again of the same bytes.
answered=$BUILD/nvcc/$({ nvcc --version || true; echo "$what $*"; cat "$0" "$file"; } 2>/dev/null | sha256sum | cut -c 1-32)
[[ ! -e $answered ]] || exit 0
exec 3>&1 >"$tmp/answer"

case $what in
compiles)
	codes=()
	for arch in "$@"; do
		codes+=(-gencode "arch=compute_${arch#sm_},code=$arch")
	done
	if ! nvcc -O3 -std=c++17 "${codes[@]}" -fatbin "$file" -o "$tmp/x" >"$tmp/log" 2>&1 || [[ -s $tmp/log ]]; then
		echo "$name ($*): $(head -n 1 "$tmp/log")"
	fi
	# Host code is not compiled for a fat binary: the front end alone reads it.
	;;
refuses)
	if nvcc -O3 -std=c++17 -gencode "arch=compute_${1#sm_},code=$1" -fatbin "$file" -o "$tmp/x" >/dev/null 2>&1; then
		echo "$name compiles for $1"
	fi
	;;
reads)
	if ! nvcc -std=c++17 "-arch=$1" -ptx -Xcicc -O0 "$file" -o "$tmp/x" >"$tmp/log" 2>&1 || [[ -s $tmp/log ]]; then
		echo "$name ($1): $(head -n 1 "$tmp/log")"
	fi
	;;
says)
	# As a whole compile does, the host's front end comes first: the device's (-ptx)
	# has other words for a few errors.
	if nvcc -std=c++17 "-arch=$1" --cuda "$file" -o "$tmp/x" >"$tmp/log" 2>&1; then
		echo "$name ($1) compiles"
	fi
	got=$(sed -n "s|^${file//|/.}(\([0-9]*\)): error: |\1: |p" "$tmp/log" | sed -n 1p)
	[[ $got == "$2: $3" ]] || echo "$name ($1): expected '$2: $3', got '${got:-$(sed -n 1p "$tmp/log")}'"
	;;
declines)
	# 801 is cudaErrorNotSupported.
	nvcc -std=c++17 -gencode "arch=compute_${1#sm_},code=$1" -Xcicc -O0 -Xptxas -O0 -DLAUNCHER="$2" "$file" \
		"${0%/*}/declines.c" -o "$tmp/x" >"$tmp/log" 2>&1 || true
	got=$("$tmp/x" "${@:3}" 2>&1 || true)
	[[ $got == 801 ]] || echo "$name ($1): ${*:2} gives '${got:-$(head -n 1 "$tmp/log")}', not 801"
	;;
python)
	got=0
	python3 - "$file" >"$tmp/log" 2>&1 <<-'END' || true
		import sys
		try:
		    compile(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1], "exec")
		except SyntaxError as e:
		    print(e.lineno, type(e).__name__)
	END
	got=$(<"$tmp/log")
	[[ $got == "${*:1:2}" || ($1 == 0 && -z $got) ]] || echo "$name: expected '$*', got '$got'"
	;;
esac

if [[ -s $tmp/answer ]]; then
	cat "$tmp/answer" >&3
else
	mkdir -p "$BUILD/nvcc"
	touch "$answered"
fi

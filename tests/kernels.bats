#!/usr/bin/env bats
# What the kernel files claim, asked of nvcc and of Python: every variant
# compiles for each arch whose features it needs and for no other, and every
# compile fault gives the message that it foretells, on that line.
load helper

BATS_NO_PARALLELIZE_WITHIN_FILE=true
ARCHES="sm_80 sm_86 sm_90a sm_120a"

# The archs that have a feature (facts of the hardware, not of our tables).
has() {
	case $1 in
	cp_async) echo "$ARCHES" ;;
	tma | cluster | setmaxnreg | fp8_mma) echo "sm_90a sm_120a" ;;
	wgmma) echo "sm_90a" ;;
	fp4_cvt | mxf8) echo "sm_120a" ;;
	*) fail "no such feature: $1" ;;
	esac
}

# For each kernel: OP VARIANT IMPL FILE NEEDS(,) DTYPES(,).
setup_file() {
	space --list-kernels >"$BATS_FILE_TMPDIR/kernels"
	jq -r '[.op, .variant, .impl, .file, (.needs | join(",")), (.dtypes | join(","))] | join("|")' \
		"$BATS_FILE_TMPDIR/kernels" >"$BATS_FILE_TMPDIR/table"
}

# met NEEDS: the archs that meet them all.
met() {
	local arch need
	for arch in $ARCHES; do
		for need in ${1//,/ }; do
			[[ " $(has "$need") " == *" $arch "* ]] || continue 2
		done
		echo "$arch"
	done
}

# judge: runs the jobs of $BATS_TEST_TMPDIR/jobs (TAB-separated arguments of
# nvcc.sh) on all cores; what they print is wrong.
judge() {
	[[ -s $BATS_TEST_TMPDIR/jobs ]] || fail "nothing to ask"
	parallel --plain --will-cite -j "$(nproc)" --colsep '\t' "$ROOT/tests/nvcc.sh" \
		<"$BATS_TEST_TMPDIR/jobs" >"$BATS_TEST_TMPDIR/faults" 3>&-
	[[ ! -s $BATS_TEST_TMPDIR/faults ]] || fail "$(sort "$BATS_TEST_TMPDIR/faults")"
}

# job ARGUMENT…
job() {
	local IFS=$'\t'
	printf '%s\n' "$*" >>"$BATS_TEST_TMPDIR/jobs"
}

# render OP VARIANT IMPL OPTION…: prints the name of a file with the source.
render() {
	local op=$1 variant=$2 impl=$3 name ext=cu
	shift 3
	[[ $impl != triton ]] || ext=py
	name=$op.$variant
	[[ $# == 0 ]] || name+=".$*"
	# Without commas: nvcc takes them for its own.
	name=$BATS_TEST_TMPDIR/${name//[^A-Za-z0-9_.=-]/_}.$ext
	space --render "$op/$variant" --impl "$impl" "$@" >"$name"
	echo "$name"
}

@test "every kernel file is known, and as it stands it is what is rendered by default" {
	(cd "$ROOT/src/kernels" && ls -- */*.cu */*.py) | sort | cmp - <(cut -d'|' -f4 "$BATS_FILE_TMPDIR/table" | sort)
	local op variant impl file needs dtypes got
	while IFS='|' read -r op variant impl file needs dtypes; do
		got=$(render "$op" "$variant" "$impl")
		grep -v '^[[:space:]]*\(//\|#\)!' "$ROOT/src/kernels/$file" | cmp - "$got" || fail "$file"
		none grep -nHE '//!|#!|(^|[^a-z])(fault|bug|wrong|incorrect|naive|slow|fast|best)([^a-z]|$)' "$got"
	done <"$BATS_FILE_TMPDIR/table"
}

@test "every op has naive and two more variants, three compile and three wrong-result faults" {
	jq -s -r 'group_by([.op, .impl])[] | . as $k | {op: .[0].op, impl: .[0].impl, n: length,
		naive: any(.variant == "naive"), compile: [.[].faults[] | select(.kind == "compile")] | length,
		wrong: [.[].faults[] | select(.kind == "wrong")] | length}
		| select(.n < 3 or (.naive | not) or .compile < 3 or .wrong < 3) | tojson' \
		"$BATS_FILE_TMPDIR/kernels" >"$BATS_TEST_TMPDIR/poor"
	[[ ! -s $BATS_TEST_TMPDIR/poor ]] || fail "$(cat "$BATS_TEST_TMPDIR/poor")"
	(($(jq -s -r 'map([.op, .impl]) | unique | length' "$BATS_FILE_TMPDIR/kernels") == 18))
}

@test "no two parameters or axes differ in letter case alone: DuckDB takes them for one" {
	{
		jq -r '.params | keys[]' "$BATS_FILE_TMPDIR/kernels" | sort -u | sed 's/^/params: /'
		taskgen -n 102 | jq -r '.shape | keys[]' | sort -u | sed 's/^/shape: /'
	} | tr '[:upper:]' '[:lower:]' | sort | uniq -d >"$BATS_TEST_TMPDIR/twins"
	[[ ! -s $BATS_TEST_TMPDIR/twins ]] || fail "$(cat "$BATS_TEST_TMPDIR/twins")"
}

# The first dtype on every arch, the others, whose text differs in a line or
# two, on the newest that will do.
@test "every variant compiles for each arch that meets its needs, in each dtype" {
	tool nvcc
	local op variant impl file needs dtypes dtype arches
	while IFS='|' read -r op variant impl file needs dtypes; do
		[[ $impl == cuda ]] || continue
		mapfile -t arches < <(met "$needs")
		for dtype in ${dtypes//,/ }; do
			job compiles "$(render "$op" "$variant" "$impl" --dtype "$dtype")" "${arches[@]}"
			arches=("${arches[-1]}")
		done
	done <"$BATS_FILE_TMPDIR/table"
	judge
}

@test "a variant does not compile for an arch that lacks what it needs" {
	tool nvcc
	local op variant impl file needs dtypes arch
	while IFS='|' read -r op variant impl file needs dtypes; do
		[[ $impl == cuda ]] || continue
		for arch in $ARCHES; do
			[[ " $(met "$needs" | tr '\n' ' ') " == *" $arch "* ]] || job refuses "$(render "$op" "$variant" "$impl")" "$arch"
		done
	done <"$BATS_FILE_TMPDIR/table"
	judge
}

@test "legal candidates of tasks compile for their arch in their dtype" {
	tool nvcc
	# One of each variant, as the seed deals them.
	taskgen -n 204 | space --sample 12 | jq -r 'select(.impl == "cuda") | [.op, .variant, .dtype, .arch,
		(.params | to_entries | map("\(.key)=\(.value)") | join(","))] | join("|")' |
		awk -F '|' '!n[$1, $2]++' >"$BATS_TEST_TMPDIR/candidates"
	local op variant dtype arch params
	while IFS='|' read -r op variant dtype arch params; do
		job compiles "$(render "$op" "$variant" cuda --dtype "$dtype" --params "$params")" "$arch"
	done <"$BATS_TEST_TMPDIR/candidates"
	judge
}

# illegal FILE ARCH NAME=VALUE…: a legal line of the file is false for them. Bash reads C's
# expressions; lines that call a function or ask for the arch are passed over.
illegal() {
	local file=$1 arch=${2//[!0-9]/} line assignment
	for assignment in "${@:3}"; do local "$assignment"; done
	while read -r line; do
		((line)) || return 0
	done < <(sed -n 's|^//! legal ||p' "$ROOT/src/kernels/$file" | grep -vE '(min|max|cdiv|pow2)\(|arch')
	return 1
}

bytes() {
	case $1 in
	fp32) echo 4 ;;
	fp16 | bf16) echo 2 ;;
	*) echo 1 ;;
	esac
}

@test "a launcher refuses the parameters that its file calls illegal, before it asks for a GPU" {
	tool nvcc
	# A step from the legal candidates of a task, of each variant the first that its file forbids.
	taskgen -n 102 --ops int4_gemv,kv_append,nucleus_sample,rmsnorm,rope,topk_sample >"$BATS_TEST_TMPDIR/tasks"
	space "$BATS_TEST_TMPDIR/tasks" | jq -n -r --slurpfile tasks "$BATS_TEST_TMPDIR/tasks" \
		--slurpfile kernels "$BATS_FILE_TMPDIR/kernels" '
		def at: "\(.op) \(.impl) \(.dtype) \(.gpu) \(.shape)";
		def list: to_entries | map("\(.key)=\(.value)") | join(",");
		($kernels | map({key: "\(.op) \(.variant) \(.impl)", value: .}) | from_entries) as $kernel
		| ($tasks | map({key: at, value: .task.signature}) | from_entries) as $signature
		| reduce (inputs | select(.impl == "cuda")) as $c ({}; .[$c | "\(at) \(.variant)"] += [$c])
		| .[] | .[0] as $c | (map({key: (.params | tojson), value: true}) | from_entries) as $legal
		| $kernel["\($c.op) \($c.variant) \($c.impl)"] as $k | .[:40] | map(.params) | unique[] as $from
		| $k.params | to_entries[] | .key as $name | .value[]
		| ($from + {($name): .}) as $params | select($legal[$params | tojson] | not)
		| [$c.op, $c.variant, $k.file, $c.dtype, $c.arch, ($params | list),
			($signature[$c | at] | split("*") | length - 2 | tostring), ($c.shape | list)]
		| join("|")' >"$BATS_TEST_TMPDIR/illegal"
	local op variant file dtype arch params pointers shape axes sets seen=' ' asked=0
	while IFS='|' read -r op variant file dtype arch params pointers shape; do
		[[ $seen != *" $file "* ]] || continue
		IFS=, read -r -a axes <<<"$shape"
		IFS=, read -r -a sets <<<"$params"
		illegal "$file" "$arch" e="$(bytes "$dtype")" "${axes[@]}" "${sets[@]}" || continue
		seen+="$file "
		asked=$((asked + 1))
		job declines "$(render "$op" "$variant" cuda --dtype "$dtype" --params "$params")" "$arch" "$op" "$pointers" "${axes[@]#*=}"
	done <"$BATS_TEST_TMPDIR/illegal"
	((asked >= 8)) || fail "only $asked asked"
	judge
}

@test "every compile fault gives its message on its line" {
	tool nvcc
	jq -r 'select(.impl == "cuda") | . as $k | .faults[] | select(.kind == "compile")
		| [$k.op, $k.variant, ($k.needs | join(",")), .name, (.line | tostring), .message] | join("|")' \
		"$BATS_FILE_TMPDIR/kernels" >"$BATS_TEST_TMPDIR/compile-faults"
	local op variant needs name line message arches
	while IFS='|' read -r op variant needs name line message; do
		mapfile -t arches < <(met "$needs")
		job says "$(render "$op" "$variant" cuda --fault "$name")" "${arches[0]}" "$line" "$message"
	done <"$BATS_TEST_TMPDIR/compile-faults"
	judge
}

@test "a wrong-result fault passes the compiler's front end: nothing is said of it" {
	tool nvcc
	jq -r 'select(.impl == "cuda") | . as $k | .faults[] | select(.kind == "wrong")
		| [$k.op, $k.variant, ($k.needs | join(",")), .name] | join("|")' \
		"$BATS_FILE_TMPDIR/kernels" >"$BATS_TEST_TMPDIR/wrong-faults"
	local op variant needs name arches
	while IFS='|' read -r op variant needs name; do
		mapfile -t arches < <(met "$needs")
		job reads "$(render "$op" "$variant" cuda --fault "$name")" "${arches[0]}"
	done <"$BATS_TEST_TMPDIR/wrong-faults"
	judge
}

@test "Triton files compile as Python, their compile faults do not" {
	tool python3
	jq -r 'select(.impl == "triton") | . as $k | [$k.op, $k.variant, "", "0", ""],
		(.faults[] | [$k.op, $k.variant, .name, (if .kind == "compile" then .line else 0 end | tostring), .message // ""])
		| join("|")' "$BATS_FILE_TMPDIR/kernels" >"$BATS_TEST_TMPDIR/triton"
	local op variant name line message
	while IFS='|' read -r op variant name line message; do
		job python "$(render "$op" "$variant" triton ${name:+--fault "$name"})" "$line" "$message"
	done <"$BATS_TEST_TMPDIR/triton"
	judge
}

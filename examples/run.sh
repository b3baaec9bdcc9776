#!/usr/bin/env bash
# run.sh runs every example and compares its tokens with those of the CPU. It prints a line for each: ran, skipped and why, or
# differs; and exits 1 if one differs or failed.
#
# It needs Go, or binaries made on another machine: FSGEN (cmd/fsgen), INPUTS (examples/inputs), SERVING (examples/go/serving) and
# RANKS (examples/go/ranks).
# PYTHON names another python3, CXX another compiler, CUDA_INCLUDE the folder of cuda.h, LIBCUDA what to link (default: the
# driver's library). FSGEN_REQUIRE_GPU=1 makes a missing GPU a failure.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3} compiler=${CXX:-c++} failed=0

# binary NAME PACKAGE GIVEN: a program of this repository, the given one or one built now.
binary() {
	if [ -n "$3" ]; then
		printf '%s' "$3"
	elif command -v go >/dev/null 2>&1; then
		(cd "$here/.." && CGO_ENABLED=0 go build -o "$work/$1" "./$2") && printf '%s' "$work/$1"
	fi
}

line() { printf '%-28s %-8s %s\n' "$1" "$2" "$3"; }

skip() { line "$1" skipped "$2"; }

# tokens FILE: the tokens of a JSON object.
tokens() { sed -n 's/.*"tokens": *\[\([^]]*\)\].*/\1/p' "$1" | tr -d ' '; }

# compare NAME COMMAND...: runs an example and holds its tokens against those of the CPU.
compare() {
	local name=$1 got
	shift
	if ! "$@" >"$work/out" 2>"$work/err"; then
		line "$name" failed "$(tail -n 1 "$work/err" | cut -c 1-160)"
		failed=1
		return
	fi
	got=$(tokens "$work/out")
	if [ "$got" = "$want" ]; then
		line "$name" ran "$got"
	else
		line "$name" differs "$got: the CPU has $want"
		failed=1
	fi
}

# serve NAME DEVICE: the serving loop, which compares for itself.
serve() {
	if "$serving" -device "$2" "${@:3}" >"$work/out" 2>"$work/err"; then
		line "$1" ran "$(tail -n 1 "$work/out")"
	else
		line "$1" failed "$(tail -n 1 "$work/err" | cut -c 1-160)"
		failed=1
	fi
}

fsgen=$(binary fsgen cmd/fsgen "${FSGEN:-}")
inputs=$(binary inputs examples/inputs "${INPUTS:-}")
serving=$(binary serving examples/go/serving "${SERVING:-}")
ranks=$(binary ranks examples/go/ranks "${RANKS:-}")
if [ -z "$fsgen" ] || [ -z "$inputs" ] || [ -z "$serving" ] || [ -z "$ranks" ]; then
	echo "run.sh: want Go, or FSGEN, INPUTS, SERVING and RANKS" >&2
	exit 1
fi
"$inputs" "$work/in" || exit 1
sample() {
	"$fsgen" sample --weights "$work/in/weights.safetensors" --hidden "$work/in/hidden.npy" --temperature "$work/in/temperature.npy" \
		--seed "$work/in/seed.npy" --position "$work/in/position.npy" --json "$@"
}
sample --device cpu >"$work/cpu.json" || exit 1
want=$(tokens "$work/cpu.json")
line "fsgen, cpu" ran "$want"
compare "fsgen, sim:sm_90" sample --device sim:sm_90
compare "go/ranks, 3 on cpu" "$ranks" -in "$work/in" -ranks 3 -devices cpu
compare "go/ranks, 2 on sim:sm_90" "$ranks" -in "$work/in" -ranks 2 -devices sim:sm_90
serve "go/serving, cpu" cpu
serve "go/serving, sim:sm_90" sim:sm_90 -vocab 200 -hidden 64 -requests 4 -batch 3

examples="go/serving go/ranks python/pytorch_example python/cupy_example python/cuda_core cpp"
if ! "$fsgen" doctor --require-gpu >"$work/doctor" 2>&1; then
	why="no usable GPU"
	for e in $examples; do skip "$e" "$why"; done
	if [ -n "${FSGEN_REQUIRE_GPU:-}" ]; then
		tail -n 1 "$work/doctor"
		exit 1
	fi
	exit $failed
fi
compare "fsgen, cuda" sample --device cuda
arch=$(sed -n 's/.*"kernel":"fsgen_\(sm_[0-9]*\)_.*/\1/p' "$work/out")
serve "go/serving, cuda" cuda
compare "go/ranks, 2 in one process" "$ranks" -in "$work/in" -ranks 2
compare "go/ranks, 3 processes" "$ranks" -in "$work/in" -ranks 3 -processes

# Narrow kernels of one CTA, and wide ones with a cluster; tensor maps by value, in global memory, and packed weights.
emit() { "$fsgen" emit --arch "$arch" --vocab 5000 --hidden 264 --format ptx,json,h -o "$work/$1" "${@:2}" >/dev/null || exit 1; }
emit param --batch 5,128
emit global --batch 5,128 --tensormap global
emit packed --batch 5,256 --weights packed
emit packedglobal --batch 5,256 --weights packed --tensormap global

# python NAME MODULE FOLDER...: an example with the kernels of some folders.
python() {
	local name=$1 module=$2 kernel folder
	if ! "$python" -c "import numpy, $module" 2>"$work/err"; then
		skip "python/$name" "$(tail -n 1 "$work/err")"
		return
	fi
	for folder in "${@:3}"; do
		for kernel in "$work/$folder"/*.ptx; do
			tile=$(basename "$kernel" | sed 's/fsgen_sm_[0-9]*_\([^_]*\)_.*/\1/')
			compare "$name, $folder, $tile" "$python" "$here/python/$name.py" "$kernel" "$work/in"
		done
	done
}
export PYTHONDONTWRITEBYTECODE=1
python pytorch_example torch param global
python cupy_example cupy global
python cuda_core cuda.core global

# cpp FOLDER...: the C++ example with the headers of some folders.
cpp() {
	local include=${CUDA_INCLUDE:-} dir folder header
	for dir in "$here/../.tools/include" "${CUDA_HOME:-/usr/local/cuda}/include"; do
		if [ -z "$include" ] && [ -f "$dir/cuda.h" ]; then include=$dir; fi
	done
	if ! command -v "$compiler" >/dev/null 2>&1; then skip cpp "no $compiler" && return; fi
	if [ -z "$include" ]; then skip cpp "no cuda.h: make tools, or CUDA_INCLUDE" && return; fi
	for folder in "$@"; do
		for header in "$work/$folder"/*.h; do
			tile=$(basename "$header" | sed 's/fsgen_sm_[0-9]*_\([^_]*\)_.*/\1/')
			if ! make -s -C "$here/cpp" HEADER="$header" OUT="$work/sample" CXX="$compiler" CUDA_INCLUDE="$include" \
				LIBCUDA="${LIBCUDA:--l:libcuda.so.1}" -B 2>"$work/err"; then
				line "cpp, $folder, $tile" failed "$(tail -n 1 "$work/err" | cut -c 1-160)"
				failed=1
				continue
			fi
			compare "cpp, $folder, $tile" "$work/sample" "$work/in"
		done
	done
}
cpp param global packed packedglobal
exit $failed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make demo`: the whole path on one machine.  Starts one scheduler and two
# servers with two software cards each, runs every program on a slice of its own,
# shows `gpupool status` while they run, ends everything, and prints one line
# PASS or FAIL for each.  The exit status is 0 only if all passed.
#
#     tests/demo.sh BUILD

set -u
build=$(cd "${1:-build}" && pwd) || exit 2
names=(vecadd matmul reduce histogram mandelbrot pipeline)
# How often each does its work: some seconds, so that status has something to show.
declare -A rounds=([vecadd]=150 [matmul]=16 [reduce]=250 [histogram]=200 [mandelbrot]=80
                   [pipeline]=150)
failures=0

# A pool of our own, whatever else runs on this machine.
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpupool-demo.XXXXXX")
export XDG_RUNTIME_DIR=$folder
unset "${!GPUPOOL_@}"
PATH=$build/bin:$PATH

finish()
{
    gpupool down >"$folder/down" 2>&1 || {
        echo "FAIL down: $(tail -n 1 "$folder/down")"
        failures=$((failures + 1))
    }
    rm -rf "$folder"
}

# run_all SUFFIX: the six programs side by side, each in a session of its own.
run_all()
{
    local suffix=$1 name pids=() index

    for name in "${names[@]}"; do
        gpupool run --core 30 --memory 1GiB -- "$build/tests/programs/$name$suffix" \
            "${rounds[$name]}" >"$folder/$name.out" 2>"$folder/$name.err" &
        pids+=($!)
    done
    show_status "${pids[@]}"
    for index in "${!names[@]}"; do
        wait "${pids[$index]}"
        judge "${names[$index]}" "$suffix" $?
    done
}

# The fullest picture seen while any of these processes lives: the most sessions
# with a program attached.
show_status()
{
    local best=0 seen

    rm -f "$folder/best"
    while kill -0 "$@" 2>/dev/null && [ $best -lt ${#names[@]} ]; do
        seen=$(gpupool status --json 2>/dev/null | grep -c '"attachments": [1-9]')
        if [ "$seen" -gt $best ] && gpupool status >"$folder/status" 2>&1; then
            best=$seen
            cp "$folder/status" "$folder/best"
        fi
    done
    echo
    echo "\$ gpupool status          (while they run)"
    cat "$folder/best" 2>/dev/null || {
        echo "FAIL status: no running session was seen"
        failures=$((failures + 1))
    }
    echo
}

judge()
{
    local name=$1 suffix=$2 status=$3

    if [ "$status" = 0 ] && grep -q ': ok$' "$folder/$name.out"; then
        echo "PASS $name$suffix ($(sed 's/^[a-z]*: //; s/: ok$//' "$folder/$name.out"))"
    else
        echo "FAIL $name$suffix: exit status $status"
        cat "$folder/$name.out" "$folder/$name.err"
        failures=$((failures + 1))
    fi
}

trap finish EXIT
trap 'exit 130' INT TERM

echo "\$ gpupool up --servers 2 --cards 2"
gpupool up --servers 2 --cards 2 || exit 1

echo "six programs, each: gpupool run --core 30 --memory 1GiB -- PROGRAM"
run_all ""
if [ -x "$build/tests/programs/vecadd-static" ]; then
    echo "the same kernels as ordinary CUDA runtime programs, static runtime"
    run_all -static
    echo "and with the shared runtime"
    run_all -shared
else
    echo "(no nvcc here: the CUDA runtime variants are left out)"
fi

trap - EXIT
finish
[ $failures = 0 ] && echo "demo: all passed" || echo "demo: $failures failed"
exit $((failures != 0))

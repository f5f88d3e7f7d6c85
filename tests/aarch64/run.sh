#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make test-aarch64`: everything built for 64-bit ARM with Debian's cross compiler, and
# what of it can run there run under QEMU's user mode: unit tests, the demo's programs on
# the software card in their own process, and one of them as the client of a pool whose
# servers run on this machine.  No emulated kernel, no root.
#
#     tests/aarch64/run.sh BUILD [UNIT-TEST...]
#
# BUILD is a native build; the other one is BUILD-aarch64.  Needs gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross and qemu-user-static; what is missing is named, and nothing runs.

set -u
build=$(cd "${1:-build}" && pwd) || exit 2
shift
arm=$build-aarch64
. "$(dirname "$0")/cross.sh"
tests=(test_gp_text test_gp_msg test_gp_loop test_gp_blake3 test_codec test_gen_loop
    test_xport test_xport_block test_ptx_parse test_ptx_errors test_ptx_init
    test_ptx_link test_sg_ir test_sg_isa test_sg_sched test_sg_access test_sg_warp
    test_sg_matrix test_sg_tex test_sg_wide test_sg_cluster test_sg_golden_int
    test_sg_golden_float test_sg_golden_half test_sg_golden_cvt test_sg_numerics
    test_sgapi_basic test_sgapi_stream test_sgapi_card)
[ $# -gt 0 ] && tests=("$@")
programs=(vecadd matmul reduce histogram mandelbrot pipeline)

arm_lacks qemu-aarch64-static && exit 0

# Tests that start themselves again do it in the emulator (ut_exec_self()).  It keeps a
# record of every page that a process reserves, so addresses have 39 bits, as on many a
# 64-bit ARM machine: with more, a terabyte for each card becomes gigabytes of records.
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu QEMU_RESERVED_VA=0x8000000000
UT_EMULATOR=$(command -v qemu-aarch64-static)
export UT_EMULATOR

# emulated DRIVER-FOLDER PROGRAM ARG...
emulated()
{
    local path=$1:$arm/lib:$libs:$root/lib/aarch64-linux-gnu

    shift
    timeout 600 qemu-aarch64-static -L /usr/aarch64-linux-gnu \
        -E LD_LIBRARY_PATH="$path" "$@"
}

passed=0 failed=0
# report NAME STATUS: also shows the end of what it said, in $arm/out
report()
{
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "PASS $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1: status $2"
        tail -n 5 "$arm/out" | sed 's/^/    /'
    fi
}

remote()
{
    local folder status

    folder=$(mktemp -d "${TMPDIR:-/tmp}/gpupool-arm.XXXXXX")
    XDG_RUNTIME_DIR=$folder "$build/bin/gpupool" up --servers 1 --cards 1 >"$arm/out" 2>&1
    XDG_RUNTIME_DIR=$folder "$build/bin/gpupool" run --core 30 --memory 1GiB -- \
        qemu-aarch64-static -L /usr/aarch64-linux-gnu \
        -E LD_LIBRARY_PATH="$arm/lib:$libs:$root/lib/aarch64-linux-gnu" \
        "$arm/tests/programs/vecadd" 2 >>"$arm/out" 2>&1
    status=$?
    XDG_RUNTIME_DIR=$folder "$build/bin/gpupool" down >/dev/null 2>&1
    rm -rf "$folder"
    report "remote vecadd: ARM client, server here" $status
}

arm_fetch || exit 0
arm_make all "${tests[@]/#/$arm/tests/unit/}" \
    "${programs[@]/#/$arm/tests/programs/}" >"$arm/out" 2>&1
report "build" $?
[ $failed = 0 ] || exit 1
for t in "${tests[@]}"; do
    emulated "$arm/lib" "$arm/tests/unit/$t" >"$arm/out" 2>&1
    report "$t" $?
done
for p in "${programs[@]}"; do
    emulated "$arm/lib/softgpu" "$arm/tests/programs/$p" 1 >"$arm/out" 2>&1
    report "$p on the software card" $?
done
remote
echo "$passed passed, $failed failed"
[ $failed = 0 ]

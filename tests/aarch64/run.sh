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
# The libraries' arm64 packages are fetched with apt-get and unpacked into BUILD-aarch64,
# never installed.

set -u
build=$(cd "${1:-build}" && pwd) || exit 2
shift
arm=$build-aarch64
root=$arm/root
libs=$root/usr/lib/aarch64-linux-gnu
packages=(libzstd-dev libzstd1 liblz4-dev liblz4-1 libprotobuf-c-dev libprotobuf-c1
    libcmocka-dev libcmocka0 libssl-dev libssl3 libjansson-dev libjansson4
    libsqlite3-dev libsqlite3-0 libseccomp-dev libseccomp2 libibverbs-dev libibverbs1
    librdmacm-dev librdmacm1 libnl-3-200 libnl-route-3-200 libmicrohttpd-dev
    libmicrohttpd12)
tests=(test_gp_text test_gp_msg test_gp_loop test_gp_blake3 test_codec test_gen_loop
    test_xport test_xport_block test_ptx_parse test_ptx_errors test_ptx_init
    test_ptx_link test_sg_ir test_sg_isa test_sg_sched test_sg_access test_sg_warp
    test_sg_matrix test_sg_tex test_sg_wide test_sg_cluster test_sg_golden_int
    test_sg_golden_float test_sg_golden_half test_sg_golden_cvt test_sg_numerics
    test_sgapi_basic test_sgapi_stream test_sgapi_card)
[ $# -gt 0 ] && tests=("$@")
programs=(vecadd matmul reduce histogram mandelbrot pipeline)

for need in aarch64-linux-gnu-gcc qemu-aarch64-static apt-get dpkg-deb; do
    command -v $need >/dev/null || {
        echo "SKIP test-aarch64: $need is not installed" \
            "(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)"
        exit 0
    }
done

# The arm64 packages, by an apt of its own: this system's lists stay as they are.
fetch()
{
    local apt=$arm/apt opts

    [ -e "$arm/fetched" ] && return 0
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$root"
    : >"$apt/status"
    opts=(-q -o APT::Architecture=arm64 -o APT::Architectures::=arm64
        -o Dir::State="$apt/state" -o Dir::State::status="$apt/status"
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
    (cd "$apt" && apt-get "${opts[@]}" update >log 2>&1 &&
        apt-get "${opts[@]}" download "${packages[@]}" >>log 2>&1) || {
        tail -n 3 "$apt/log"
        return 1
    }
    for deb in "$apt"/*.deb; do
        dpkg-deb -x "$deb" "$root" || return 1
    done
    touch "$arm/fetched"
}

arm_make()
{
    local cc="aarch64-linux-gnu-gcc -isystem $root/usr/include"

    cc+=" -isystem $root/usr/include/aarch64-linux-gnu -L$libs -L$root/lib/aarch64-linux-gnu"
    cc+=" -Wl,-rpath-link,$libs -Wl,--allow-shlib-undefined"
    make --no-print-directory O="$arm" CC="$cc" AR=aarch64-linux-gnu-ar NVCC= "$@"
}

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

mkdir -p "$arm"
fetch || {
    echo "SKIP test-aarch64: the arm64 packages cannot be fetched"
    exit 0
}
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

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [--short] BUILD [PATTERN]: the tests that need a verbs stack, in a guest that
# has one.  Without PATTERN: the transport's unit tests over Soft-RoCE (IPv4 and IPv6)
# and, where its module can be built, over iWARP; then every end-to-end test over RDMA.
# Ends with `N passed, N failed, N skipped` (of the end-to-end tests).
#
# --short: for `make test`.  Unit tests over Soft-RoCE and the tests that are about RDMA,
# under hardware virtualisation or not at all (125); ACCEL=tcg emulates all the same.
#
# SAN=...: what BUILD was made with.  Without PATTERN: all the unit tests, and of the
# end-to-end tests those that are about RDMA, because both the guest and they are slow.
set -eu
short=
if [ "${1-}" = --short ]; then
    short=1
    shift
fi
build=$(cd "$1" && pwd)
pattern=${2-}
here=$(cd "$(dirname "$0")" && pwd)
sanitizer=${SAN-}
cd "$here/../.."

# An emulated processor is slow: limits stretch, also those inside the programs.
slowness=8 memory=2048
[ -z "$sanitizer" ] || slowness=24 memory=6144

units="for t in test_xport test_xport_rdma; do $build/tests/unit/\$t || exit 1; done"
over_rxe="export GPUPOOL_TEST_RDMA=\$RDMA_VM_ADDR GPUPOOL_TEST_RDMA6=fd00:77::1; $units"
over_siw="export GPUPOOL_TEST_RDMA=\$RDMA_VM_SIW_ADDR; $units"

# guest OPTION...: a machine for the unit tests, which connect a port to itself.
guest() {
    "$here/rdma-vm" --timeout $((75 * slowness)) --memory $memory "$@"
}

# e2e PATTERN OPTION...: in a guest with two ports and a wire between them.
e2e() {
    only=$1
    shift
    "$here/rdma-vm" "$@" --net pair --timeout 7200 --memory $memory --rw "$build" -- sh -c "
        E2E_LISTEN=\$RDMA_VM_ADDR2 E2E_TRANSPORT=rdma python3 -B tests/run.py \
            --build $build --sanitizer '$sanitizer' --slowness $slowness \
            --only '$only' --e2e"
}

if [ -n "$short" ]; then
    accel=${ACCEL:-kvm}
    [ "$accel" = tcg ] || slowness=2
    guest --accel "$accel" -- sh -c "$over_rxe"
    e2e 'rdma.*' --accel "$accel"
    exit
fi
if [ -z "$pattern" ]; then
    guest -- sh -c "$over_rxe"
    if command -v gcc-12 make >/dev/null; then
        guest --siw -- sh -c "$over_siw"
    else
        echo "skipped: iWARP (gcc-12 and make build its module)"
    fi
    # Only the newer kernel makes dma-bufs of memory, as real cards do.
    guest --kernel 6.12 -- sh -c "$over_rxe && exec $build/tests/unit/test_sgapi_more"
    [ -z "$sanitizer" ] || pattern='rdma.*'
fi
e2e "${pattern:-*}"

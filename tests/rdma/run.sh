#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [--short] BUILD [PATTERN]: the tests that need a verbs stack, in a guest that
# has one.  Without PATTERN: the transport's unit tests over Soft-RoCE (IPv4 and IPv6)
# and, where its module can be built, over iWARP; then every end-to-end test over RDMA.
# Ends with `N passed, N failed, N skipped` (of the end-to-end tests).
#
# --short: for `make test`.  Unit tests over Soft-RoCE and the tests that are about RDMA,
# under hardware virtualisation or not at all (125).
set -eu
short=
if [ "${1-}" = --short ]; then
    short=1
    shift
fi
build=$(cd "$1" && pwd)
pattern=${2-}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

units="for t in test_xport test_xport_rdma; do $build/tests/unit/\$t || exit 1; done"
over_rxe="export GPUPOOL_TEST_RDMA=\$RDMA_VM_ADDR GPUPOOL_TEST_RDMA6=fd00:77::1; $units"
over_siw="export GPUPOOL_TEST_RDMA=\$RDMA_VM_SIW_ADDR; $units"

# e2e SLOWNESS PATTERN OPTION...: in a guest with two ports and a wire between them.
e2e() {
    slowness=$1 only=$2
    shift 2
    "$here/rdma-vm" "$@" --net pair --timeout 3000 --rw "$build" -- sh -c "
        E2E_LISTEN=\$RDMA_VM_ADDR2 E2E_TRANSPORT=rdma python3 -B tests/run.py \
            --build $build --slowness $slowness --only '$only' --e2e"
}

if [ -n "$short" ]; then
    "$here/rdma-vm" --accel kvm --timeout 300 -- sh -c "$over_rxe"
    e2e 2 'rdma.*' --accel kvm
    exit
fi
# The unit tests connect a port to itself, which the plain layout allows.
if [ -z "$pattern" ]; then
    "$here/rdma-vm" --timeout 300 -- sh -c "$over_rxe"
    if command -v gcc-12 make >/dev/null; then
        "$here/rdma-vm" --siw --timeout 600 -- sh -c "$over_siw"
    else
        echo "skipped: iWARP (gcc-12 and make build its module)"
    fi
fi
# An emulated processor is slow: limits stretch, also those inside the programs.
e2e 8 "${pattern:-*}"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [--short] BUILD [PATTERN]: the tests that need a verbs stack, in a guest that
# has one.  Without PATTERN: the transport's unit tests over Soft-RoCE (IPv4 and IPv6)
# and, where its module can be built, over iWARP, with the end-to-end tests that are
# about RDMA; then every end-to-end test over Soft-RoCE.
# Ends with `N passed, N failed, N skipped` (of the end-to-end tests).
#
# --short: for `make test`.  Unit tests over Soft-RoCE and the tests that are about RDMA,
# where a guest is fast, or not at all (125).
#
# ACCEL=kvm|tcg|uml: how the guest runs.  Otherwise: KVM, or User Mode Linux where that has
# been built (tests/rdma/rdma-vm --accel uml --prepare, once), or, if not --short, emulated.
#
# FUZZ_SECONDS=N, with SEED=N: instead of the tests, random programs for so long over RDMA
# and TCP (docs/fuzzing.md).
#
# SAN=...: what BUILD was made with.  Without PATTERN: all the unit tests, and of the
# end-to-end tests those that are about RDMA, without the hundred attachments, because
# both the guest and they are slow.
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

accel=${ACCEL-} memory=2048 about_rdma='rdma.*'
if [ -n "$sanitizer" ]; then
    # Shadow memory needs more addresses than User Mode Linux gives.
    accel=${accel:-auto} memory=6144 about_rdma='rdma.[b-z]*'
elif [ -z "$accel" ]; then
    accel=fast
    [ -n "$short" ] || "$here/rdma-vm" --accel fast --prepare 2>/dev/null || accel=auto
fi
# Limits stretch, also those inside the programs; the guest knows what it is.
slowness="case \$RDMA_VM_ACCEL in kvm) s=2 ;; uml) s=4 ;; *) s=8 ;; esac"
[ -z "$sanitizer" ] || slowness="$slowness; s=\$((s * 3))"

units="for t in test_xport test_xport_rdma test_xport_eager; do $build/tests/unit/\$t || exit 1; done"
over_rxe="export GPUPOOL_TEST_RDMA=\$RDMA_VM_ADDR GPUPOOL_TEST_RDMA6=fd00:77::1; $units"
over_siw="export GPUPOOL_TEST_RDMA=\$RDMA_VM_SIW_ADDR; $units"

# guest OPTION...: a machine for the unit tests, which connect a port to itself.
guest() {
    "$here/rdma-vm" --accel "$accel" --timeout 1800 --memory $memory "$@"
}

# e2e ADDRESS PATTERN OPTION...: the server listens at ADDRESS, on that port only.  One
# test at a time: there may be one processor, and one of them cuts the link.
e2e() {
    address=$1 only=$2
    shift 2
    "$here/rdma-vm" --accel "$accel" "$@" --timeout 7200 --memory $memory --rw "$build" \
        -- sh -c "$slowness; E2E_LISTEN=$address E2E_TRANSPORT=rdma python3 -B tests/run.py \
            --build $build --sanitizer '$sanitizer' --slowness \$s --jobs 1 \
            --only '$only' --e2e"
}

# over_a_wire PATTERN OPTION...: in a guest with two ports and a wire between them.
over_a_wire() {
    only=$1
    shift
    e2e "\$RDMA_VM_ADDR2" "$only" --net pair "$@"
}

if [ -n "${FUZZ_SECONDS-}" ]; then
    "$here/rdma-vm" --accel "$accel" --timeout $((FUZZ_SECONDS + 1800)) --memory 6144 --rw "$build" \
        --net pair -- sh -c "PYTHONUNBUFFERED=1 exec python3 -B tests/apifuzz/fuzz.py --build $build --links rdma,tcp \
            --listen \$RDMA_VM_ADDR2 --seconds $FUZZ_SECONDS --seed ${SEED:-1} --brief"
    exit
fi
if [ -n "$short" ]; then
    # Without the hundred attachments, which take minutes where a guest has one processor.
    about_rdma='rdma.[b-z]*'
    guest -- sh -c "$over_rxe"
    over_a_wire "$about_rdma"
    exit
fi
if [ -z "$pattern" ]; then
    guest -- sh -c "$over_rxe"
    if command -v gcc-12 make >/dev/null; then
        guest --siw -- sh -c "$over_siw"
        e2e "\$RDMA_VM_SIW_ADDR" "$about_rdma" --siw
    else
        echo "skipped: iWARP (gcc-12 and make build its module)"
    fi
    # Debian's newer kernel makes dma-bufs of memory, as real cards do.
    accel=auto guest --kernel 6.12 -- sh -c "$over_rxe && exec $build/tests/unit/test_sgapi_more"
    [ -z "$sanitizer" ] || pattern=$about_rdma
fi
over_a_wire "${pattern:-*}"

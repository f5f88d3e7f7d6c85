#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD [PATTERN]: the tests that need a verbs stack, in a guest that has one.
# Without PATTERN: the transport's unit tests over Soft-RoCE, then every end-to-end test
# over RDMA.  Ends with `N passed, N failed, N skipped` (of the end-to-end tests).
set -eu
build=$(cd "$1" && pwd)
pattern=${2-}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

# The unit tests connect a port to itself, which the plain layout allows.
if [ -z "$pattern" ]; then
    "$here/rdma-vm" --timeout 300 -- sh -c \
        "GPUPOOL_TEST_RDMA=\$RDMA_VM_ADDR $build/tests/unit/test_xport"
fi

# An emulated processor is slow: limits stretch, also those inside the programs.
run="python3 -B tests/run.py --build $build --slowness 8"
"$here/rdma-vm" --net pair --timeout 3000 --rw "$build" -- sh -c "
    E2E_LISTEN=\$RDMA_VM_ADDR2 E2E_TRANSPORT=rdma \
        $run --only '${pattern:-*}' --e2e"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD [PATTERN]: the tests that need a verbs stack, in a guest that has one.
# Without PATTERN: the transport's unit tests over Soft-RoCE and Soft-iWARP, and every
# end-to-end test over RDMA.  Ends with `N passed, N failed, N skipped`.
set -eu
build=$(cd "$1" && pwd)
pattern=${2-}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

# An emulated processor is slow: limits stretch, also those inside the programs.
run="python3 -B tests/run.py --build $build --slowness 8"
"$here/rdma-vm" --net pair --timeout 3000 --rw "$build" -- sh -c "
    E2E_LISTEN=\$RDMA_VM_ADDR2 E2E_TRANSPORT=rdma GPUPOOL_TEST_RDMA=\$RDMA_VM_ADDR2 \
        $run --only '${pattern:-*}' --e2e"

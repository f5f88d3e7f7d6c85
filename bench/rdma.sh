#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rdma.sh BUILD: in the guest of tests/rdma, calls and copies over RDMA beside perftest on
# the same ports in the same minute.  Prints "key value" lines.
set -eu
build=$1
dev=$RDMA_VM_DEV
here=$(cd "$(dirname "$0")" && pwd)

# perftest TOOL OPTIONS: the client's last line of figures.
perftest() {
    "$@" -d "$dev" -F >/dev/null 2>&1 &
    server=$!
    until ss -ltn | grep -q ':18515 '; do sleep 0.1; done
    "$@" -d "$dev" -F "$RDMA_VM_ADDR" | grep -E '^ *[0-9]+ +[0-9]+ ' | tail -n 1
    wait $server || :
}

lat=$(perftest ib_send_lat -s 64 -n 1000 | awk '{ print 2 * $5 }')
up=$(perftest ib_write_bw -s 1048576 -n 100 | awk '{ print $4 }')
echo "rdma_raw_round_trip_us $lat"
echo "rdma_raw_write_mib_s $up"
for only in sync_call h2d d2h; do
    DRIVER=null "$here/../tests/rdma/pool.sh" "$build" env GPUPOOL_TRANSPORT=rdma \
        GPUPOOL_ATTACH_SECONDS=60 "$build/bin/gpupool" run --core 100 -- \
        "$build/bench/fast" --shm=0 --only=$only | sed 's/^/rdma_/'
done

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rdma.sh BUILD [ROUNDS]: in the guest of tests/rdma, calls and copies over RDMA and over
# TCP beside perftest on the same ports in the same minute.  Prints "key value" lines,
# ROUNDS (3) times each; bench/run.py makes ratios of them.
set -eu
build=$1
rounds=${2:-3}
dev=$RDMA_VM_DEV
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "${GPUPOOL_SCHEDULER-}" ]; then
    DRIVER=null exec "$here/../tests/rdma/pool.sh" "$build" "$0" "$build" "$rounds"
fi

# perftest TOOL OPTIONS: the client's last line of figures.
perftest() {
    "$@" -d "$dev" -F >/dev/null 2>&1 &
    server=$!
    until ss -ltn | grep -q ':18515 '; do sleep 0.1; done
    "$@" -d "$dev" -F "$RDMA_VM_ADDR" | grep -E '^ *[0-9]+ +[0-9]+ ' | tail -n 1
    wait $server || :
}

# Processor seconds of all workers that ended, as the server reaped them.
workers_cpu() {
    server=$(pidof gpupool-server)
    sed 's/.*) //' "/proc/$server/stat" | awk '{ print ($14 + $15) / 100 }'
}

# fast TRANSPORT OPTION...: the program's lines, their keys with the transport before.
fast() {
    link=$1
    shift
    GPUPOOL_TRANSPORT=$link GPUPOOL_ATTACH_SECONDS=60 \
        "$build/bin/gpupool" run --core 100 -- "$build/bench/fast" --shm=0 "$@" |
        sed "s/^/${link}_/"
}

for _ in $(seq "$rounds"); do
    perftest ib_send_lat -s 64 -n 1000 | awk '{ print "rdma_raw_us", 2 * $5 }'
    fast rdma --only=sync_call --beside=0 # as perftest does it: nothing between calls
    perftest ib_write_bw -s 1048576 -n 100 | awk '{ print "rdma_raw_mib_s", $4 }'
    before=$(workers_cpu)
    fast rdma --only=copy_cost
    between=$(workers_cpu)
    fast tcp --only=copy_cost
    after=$(workers_cpu)
    echo "rdma_worker_cpu_s $before $between" | awk '{ print $1, $3 - $2 }'
    echo "tcp_worker_cpu_s $between $after" | awk '{ print $1, $3 - $2 }'
done

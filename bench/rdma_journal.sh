#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rdma_journal.sh BUILD [PAIRS]: in the guest of tests/rdma, what a link over RDMA that can
# be replaced costs, with and without in turns, PAIRS (6) of each kind:
#   tests/rdma/rdma-vm --accel uml -- bench/rdma_journal.sh build
# Compared are lower quartiles, as by `make bench ONLY=journal`.
set -eu
build=$1
pairs=${2:-6}
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "${GPUPOOL_SCHEDULER-}" ]; then
    DRIVER=null exec "$here/../tests/rdma/pool.sh" "$build" "$0" "$build" "$pairs"
fi

# fast SECONDS: the lines of the program whose link may stay broken for so long.
fast() {
    GPUPOOL_TRANSPORT=rdma GPUPOOL_ATTACH_SECONDS=60 GPUPOOL_RESUME=$1 \
        "$build/bin/gpupool" run --core 100 -- "$build/bench/fast" --shm=0 --beside=0 \
        "--only=$only" | sed "s/^/$1 /"
}

for only in sync_call async_call copy_cost; do
    i=0
    while [ "$i" -lt "$pairs" ]; do
        if [ $((i % 2)) = 0 ]; then fast 0; fast 60; else fast 60; fast 0; fi
        i=$((i + 1))
    done
done | python3 -c '
import statistics, sys
runs, on, off = {}, "60", "0"
for seconds, key, value in (line.split() for line in sys.stdin if len(line.split()) == 3):
    runs.setdefault(key, {}).setdefault(seconds, []).append(float(value))
for key in ("sync_call_us", "async_call_ns", "async_client_cpu_ns", "h2d_64mib_gbps",
            "d2h_64mib_gbps"):
    took = {seconds: statistics.quantiles([1 / v if key.endswith("gbps") else v for v in of])[0]
            for seconds, of in runs[key].items()}
    print(f"rdma_journal_overhead {key} {took[on] / took[off] - 1:.3f} "
          f"(without {took[off]:.4g}, with {took[on]:.4g})")
'

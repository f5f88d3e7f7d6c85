#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pool.sh BUILD COMMAND...: in the guest, a pool whose server is reached at the address of
# an RDMA port ($RDMA_VM_ADDR), and COMMAND with its scheduler in GPUPOOL_SCHEDULER.
# DRIVER=softgpu|null|PATH, CARDS=N.
set -eu
build=$1
shift
dir=$(mktemp -d)
pids=
stop() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || kill $pids 2>/dev/null || :
    wait
    rm -rf "$dir"
}
trap stop EXIT

# await FILE: until it is there; the daemon that writes it must be alive.
await() {
    until [ -s "$1" ]; do
        kill -0 $! 2>/dev/null || { cat "$dir"/*.log >&2; exit 1; }
        sleep 0.05
    done
}

head -c 24 /dev/urandom | base64 >"$dir/token"
chmod 600 "$dir/token"
"$build/bin/gpupool-scheduler" --listen 127.0.0.1:0 --state-dir "$dir/state" \
    --server-token-file "$dir/token" --allow-anonymous client \
    --ready-file "$dir/scheduler" 2>"$dir/scheduler.log" &
pids="$pids $!"
await "$dir/scheduler"
GPUPOOL_SCHEDULER=$(cat "$dir/scheduler")
export GPUPOOL_SCHEDULER
"$build/bin/gpupool-server" --listen "$RDMA_VM_ADDR:0" --name rdma \
    --scheduler "$GPUPOOL_SCHEDULER" --token-file "$dir/token" \
    --driver "${DRIVER:-softgpu}" --cards "${CARDS:-1}" --ready-file "$dir/server" \
    2>"$dir/server.log" &
pids="$pids $!"
await "$dir/server"
until "$build/bin/gpupool" servers | grep -q alive; do sleep 0.1; done
status=0
"$@" || status=$?
[ $status = 0 ] || cat "$dir"/*.log >&2
exit $status

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a program in another root, where the folder BUILD and that of the session are where they
# are outside; what is mounted ends with it:   enter_root.sh ROOT BUILD PROGRAM [ARG...]
set -e
if [ "$1" != inside ]; then
    exec unshare --mount --propagation private "$0" inside "$@"
fi
root=$2 build=$3
shift 3
for folder in proc dev sys; do
    mount --rbind /$folder "$root/$folder"
done
for folder in "$build" "$XDG_RUNTIME_DIR"; do
    [ "$folder" ] || continue
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
exec chroot "$root" "$@"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a program where /dev has an empty file nvidiactl, which is what JAX looks for before
# it looks for cards; nobody else sees it.  Needs root: device_file.sh PROGRAM [ARG...]
# FILE=node: a device without a driver, as NVIDIA's library leaves one where it finds no
# kernel module; FILE=none: nothing.  TOOL=PATH: that is /usr/bin/nvidia-modprobe.
set -e
if [ "$1" != inside ]; then
    exec unshare --mount --propagation private "$0" inside "$@"
fi
shift
mount -t tmpfs -o size=1m dev /mnt
mkdir /mnt/upper /mnt/work /mnt/dev /mnt/bin /mnt/binwork
case "$FILE" in
    node) mknod /mnt/upper/nvidiactl c 195 255 ;;
    none) ;;
    *) touch /mnt/upper/nvidiactl ;;
esac
mount -t overlay -o lowerdir=/dev,upperdir=/mnt/upper,workdir=/mnt/work dev /mnt/dev
for folder in shm pts; do
    [ ! -d /dev/$folder ] || mount --bind /dev/$folder /mnt/dev/$folder
done
mount --rbind /mnt/dev /dev
if [ "$TOOL" ]; then
    install "$TOOL" /mnt/bin/nvidia-modprobe
    mount -t overlay -o lowerdir=/usr/bin,upperdir=/mnt/bin,workdir=/mnt/binwork bin /usr/bin
fi
exec "$@"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds for 64-bit ARM with Debian's cross compiler:   cross.sh BUILD TARGET...
#
# The other build folder is BUILD-aarch64.  The libraries' arm64 packages are fetched with
# apt-get and unpacked into it, never installed.  Other scripts include this one after they
# have set `arm` to that folder.

arm=${arm:-$(cd "${1:-build}" && pwd)-aarch64}
root=$arm/root
libs=$root/usr/lib/aarch64-linux-gnu
packages=(libzstd-dev libzstd1 liblz4-dev liblz4-1 libprotobuf-c-dev libprotobuf-c1
    libcmocka-dev libcmocka0 libssl-dev libssl3 libjansson-dev libjansson4
    libsqlite3-dev libsqlite3-0 libseccomp-dev libseccomp2 libibverbs-dev libibverbs1
    librdmacm-dev librdmacm1 libnl-3-200 libnl-route-3-200 libmicrohttpd-dev
    libmicrohttpd12 libcurl4-openssl-dev libcurl4 libnghttp2-dev libnghttp2-14)

# Is a tool missing?  Says so.   arm_lacks [TOOL...]
arm_lacks()
{
    for need in aarch64-linux-gnu-gcc apt-get dpkg-deb "$@"; do
        command -v "$need" >/dev/null || {
            echo "SKIP aarch64: $need is not installed" \
                "(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)"
            return 0
        }
    done
    return 1
}

# The arm64 packages, by an apt of its own: this system's lists stay as they are.
arm_unpack()
{
    local apt=$arm/apt opts

    [ -e "$arm/fetched" ] && return 0
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$root"
    : >"$apt/status"
    opts=(-q -o APT::Architecture=arm64 -o APT::Architectures::=arm64
        -o Dir::State="$apt/state" -o Dir::State::status="$apt/status"
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
    (cd "$apt" && apt-get "${opts[@]}" update >log 2>&1 &&
        apt-get "${opts[@]}" download "${packages[@]}" >>log 2>&1) || {
        tail -n 3 "$apt/log"
        return 1
    }
    for deb in "$apt"/*.deb; do
        dpkg-deb -x "$deb" "$root" || return 1
    done
    touch "$arm/fetched"
}

arm_fetch()
{
    mkdir -p "$arm"
    arm_unpack || {
        echo "SKIP aarch64: the arm64 packages cannot be fetched"
        return 1
    }
}

arm_make()
{
    local cc="aarch64-linux-gnu-gcc -isystem $root/usr/include"

    cc+=" -isystem $root/usr/include/aarch64-linux-gnu -L$libs -L$root/lib/aarch64-linux-gnu"
    cc+=" -Wl,-rpath-link,$libs -Wl,--allow-shlib-undefined"
    env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory O="$arm" CC="$cc" \
        AR=aarch64-linux-gnu-ar STRIP=aarch64-linux-gnu-strip OBJDUMP=aarch64-linux-gnu-objdump \
        NVCC= "$@"
}

# Started by itself, and not included.
if [ "$0" = "${BASH_SOURCE[0]}" ]; then
    shift
    arm_lacks && exit 0
    arm_fetch || exit 0
    arm_make "$@"
fi

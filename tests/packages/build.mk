# SPDX-License-Identifier: Apache-2.0
# What users install, installed where they would.

$(eval $(call needs,test-packages,debhelper dpkg-dev fakeroot lintian debootstrap python3-venv \
    busybox-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static \
    qemu-system-x86 kmod cpio xz-utils zstd iproute2))
#:   make test-packages         Debian packages, wheel and client tarball, installed and used
#:                              in roots of old and new releases (root, network; ONLY=pattern)
test-packages-built: all deb-built client-tarball-built wheel-built
	@$(PYTHON) -B tests/packages/run.py --build $(O) --version $(VERSION) --only '$(ONLY)'

# SPDX-License-Identifier: Apache-2.0
# The recipe of the images, without a container engine.

$(eval $(call needs,test-container,debootstrap))
#:   make test-container        what the Containerfile says, in roots made by debootstrap
#:                              (root, network, half an hour); see deploy/README.md
test-container-built: all test-programs
	@$(PYTHON) -B tests/container/run.py --build $(O)

$(eval $(call needs,test-container-limits,qemu-system-x86 busybox-static kmod cpio xz-utils zstd \
    iproute2))
#:   make test-container-limits control groups of sessions in a container, in an emulated guest
#:                              (see tests/rdma/rdma-vm --help)
test-container-limits-built: all
	@$(PYTHON) -B tests/container/limits.py --build $(O)

$(eval $(call needs,test-images,buildah debootstrap))
#:   make test-images           the images themselves, built by buildah, and their programs
#:                              (root, network, twenty minutes)
test-images-built:
	@$(PYTHON) -B tests/container/images.py --build $(O)

# SPDX-License-Identifier: Apache-2.0
# What leaves the build folder: a tarball of an installed tree.

DIST_NAME := gpupool-$(VERSION)-linux-$(shell uname -m)

.PHONY: dist
#: make dist                  build/gpupool-VERSION-linux-ARCH.tar.gz, an installed tree
dist: all
	@rm -rf $(O)/dist && mkdir -p $(O)/dist
	@$(MAKE) --no-print-directory O=$(O) PREFIX=/usr DESTDIR=$(abspath $(O))/dist/$(DIST_NAME) install
	@cp -r LICENSE README.md deploy $(O)/dist/$(DIST_NAME)/
	@tar -C $(O)/dist --owner=0 --group=0 --sort=name -czf $(O)/$(DIST_NAME).tar.gz $(DIST_NAME)
	@echo $(O)/$(DIST_NAME).tar.gz

# SPDX-License-Identifier: Apache-2.0
# What leaves the build folder: an installed tree, and a tarball of one.
#
# Programs look for their libraries in ../lib and ../lib/gpupool, so a tree can be
# unpacked anywhere.  The stub is not put where the loader finds it by itself:
# `gpupool run` points at it, and nobody's real driver is hidden.

INSTALL ?= install
INSTALL_MAN = $(wildcard docs/man/*.[1-8])

.PHONY: install-completions
install: all install-completions
	$(Q)$(INSTALL) -d $(addprefix $(DESTDIR)$(PREFIX)/,bin lib/gpupool/path share/gpupool $(foreach n,1 5 7 8,share/man/man$(n)))
	$(Q)$(INSTALL) -m 755 $(wildcard $(O)/bin/*) $(DESTDIR)$(PREFIX)/bin/
	$(Q)cp -P $(wildcard $(O)/lib/*.so*) $(DESTDIR)$(PREFIX)/lib/gpupool/
	$(Q)ln -sfn ../../../bin/gpupool $(DESTDIR)$(PREFIX)/lib/gpupool/path/nvidia-smi
	$(Q)$(PYTHON) deploy/render >$(DESTDIR)$(PREFIX)/share/gpupool/kube.yaml
	$(Q)for page in $(INSTALL_MAN); do \
	    $(INSTALL) -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/; done

# completion_rule SHELL,FOLDER,NAME: the folder where the shell looks, and what it looks
# for there, with % for the program.
define completion_rule
	$(Q)$(INSTALL) -d $(DESTDIR)$(PREFIX)/share/$(2)
	$(Q)$(foreach p,$(COMPLETED),$(O)/bin/$(p) --completion $(1) \
	    >$(DESTDIR)$(PREFIX)/share/$(2)/$(subst %,$(p),$(3)) &&) :

endef
COMPLETED := gpupool gpupool-server gpupool-scheduler gpupool-kube

install-completions: all
	$(call completion_rule,bash,bash-completion/completions,%)
	$(call completion_rule,zsh,zsh/site-functions,_%)
	$(call completion_rule,fish,fish/vendor_completions.d,%.fish)

DIST_NAME := gpupool-$(VERSION)-linux-$(shell uname -m)

.PHONY: dist
#:   make dist                  build/gpupool-VERSION-linux-ARCH.tar.gz, an installed tree
dist: all
	@rm -rf $(O)/dist && mkdir -p $(O)/dist
	@$(MAKE) --no-print-directory -o all O=$(O) PREFIX=/usr DESTDIR=$(abspath $(O))/dist/$(DIST_NAME) install
	@cp -r LICENSE README.md deploy $(O)/dist/$(DIST_NAME)/
	@tar -C $(O)/dist --owner=0 --group=0 --sort=name -czf $(O)/$(DIST_NAME).tar.gz $(DIST_NAME)
	@echo $(O)/$(DIST_NAME).tar.gz

# SPDX-License-Identifier: Apache-2.0
# What leaves the build folder: an installed tree, tarballs, Debian packages, a wheel.
#
# Programs look for their libraries in ../lib and ../lib/gpupool, so a tree can be
# unpacked anywhere.  The stub is not put where the loader finds it by itself:
# `gpupool run` points at it, and nobody's real driver is hidden.

INSTALL ?= install
STRIP   ?= strip
OBJDUMP ?= objdump
INSTALL_MAN = $(wildcard docs/man/*.[1-8])

.PHONY: install-completions
install: all install-completions
	$(Q)$(INSTALL) -d $(addprefix $(DESTDIR)$(PREFIX)/,bin lib/gpupool/path lib/gpupool/ptx/bin share/gpupool $(foreach n,1 5 7 8,share/man/man$(n)))
	$(Q)$(INSTALL) -m 755 $(wildcard $(O)/bin/*) $(DESTDIR)$(PREFIX)/bin/
	$(Q)cp -P $(wildcard $(O)/lib/*.so*) $(DESTDIR)$(PREFIX)/lib/gpupool/
	$(Q)ln -sfn ../../../bin/gpupool $(DESTDIR)$(PREFIX)/lib/gpupool/path/nvidia-smi
	$(Q)ln -sfn ../../../../bin/gpupool $(DESTDIR)$(PREFIX)/lib/gpupool/ptx/bin/ptxas
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

# Of the machine that it is built for.
ARCH = $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
DIST_NAME = gpupool-$(VERSION)-linux-$(ARCH)

.PHONY: dist
#:   make dist                  build/gpupool-VERSION-linux-ARCH.tar.gz, an installed tree
dist: all
	@rm -rf $(O)/dist && mkdir -p $(O)/dist
	@$(MAKE) --no-print-directory -o all O=$(O) PREFIX=/usr DESTDIR=$(abspath $(O))/dist/$(DIST_NAME) install
	@cp -r LICENSE README.md deploy $(O)/dist/$(DIST_NAME)/
	@tar -C $(O)/dist --owner=0 --group=0 --sort=name -czf $(O)/$(DIST_NAME).tar.gz $(DIST_NAME)
	@echo $(O)/$(DIST_NAME).tar.gz

# The client for machines of any distribution: of libraries it needs the C library alone,
# from this version on.
CLIENT_GLIBC := 2.28
CLIENT_NAME  = gpupool-client-$(VERSION)-linux-$(ARCH)
CLIENT_TREE  = $(O)/client/$(CLIENT_NAME)
CLIENT_LIBS  := libcuda.so.1 libnvidia-ml.so.1 libgpupool-tls.so.1 libgpupool-nvrtc.so.1
LOADER_x86_64  := /lib64/ld-linux-x86-64.so.2
LOADER_aarch64 := /lib/ld-linux-aarch64.so.1

.PHONY: client-tree
client-tree: $(O)/portable/gpupool $(addprefix $(O)/lib/,$(CLIENT_LIBS))
	$(Q)[ -z '$(SAN)' ] || { echo 'error: a client with sanitizers runs on this machine only' >&2; exit 1; }
	$(Q)[ -n '$(LOADER_$(ARCH))' ] || { echo 'error: no client is made for $(ARCH)' >&2; exit 1; }
	$(Q)$(PYTHON) deploy/portable/symbols.py --glibc $(CLIENT_GLIBC) --objdump $(OBJDUMP) $^
	$(Q)rm -rf $(CLIENT_TREE) && mkdir -p $(addprefix $(CLIENT_TREE)/,bin libexec lib/gpupool/path lib/gpupool/ptx/bin $(foreach n,1 5 7,share/man/man$(n)))
	$(Q)sed -e 's|@ARCH@|$(ARCH)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@GLIBC@|$(CLIENT_GLIBC)|g' \
	    -e 's|@LOADER@|$(LOADER_$(ARCH))|g' deploy/portable/gpupool.in >$(CLIENT_TREE)/bin/gpupool
	$(Q)chmod 755 $(CLIENT_TREE)/bin/gpupool
	$(Q)$(STRIP) -o $(CLIENT_TREE)/libexec/gpupool $(O)/portable/gpupool
	$(Q)for name in $(CLIENT_LIBS); do \
	    $(STRIP) --strip-unneeded -o $(CLIENT_TREE)/lib/gpupool/$$name $(O)/lib/$$name; done
	$(Q)ln -s libcuda.so.1 $(CLIENT_TREE)/lib/gpupool/libcuda.so
	$(Q)ln -s ../../../libexec/gpupool $(CLIENT_TREE)/lib/gpupool/path/nvidia-smi
	$(Q)ln -s ../../../../libexec/gpupool $(CLIENT_TREE)/lib/gpupool/ptx/bin/ptxas
	$(Q)for page in docs/man/*.[157]; do \
	    $(INSTALL) -m 644 $$page $(CLIENT_TREE)/share/man/man$${page##*.}/; done
	$(Q)cp LICENSE CHANGELOG.md $(CLIENT_TREE)/
	$(Q)cp deploy/portable/README.md $(CLIENT_TREE)/

$(eval $(call needs,client-tarball))
#:   make client-tarball        build/gpupool-client-VERSION-linux-ARCH.tar.gz: runs with any
#:                              glibc from 2.28 on; see docs/packages.md
client-tarball-built: client-tree
	@tar -C $(O)/client --owner=0 --group=0 --sort=name -czf $(O)/$(CLIENT_NAME).tar.gz $(CLIENT_NAME)
	@echo $(O)/$(CLIENT_NAME).tar.gz

$(eval $(call needs,wheel))
#:   make wheel                 the same for pip: build/wheel/gpupool-VERSION-*.whl
wheel-built: client-tree
	@$(PYTHON) -B deploy/wheel/build.py --tree $(CLIENT_TREE) --out $(O)/wheel \
	    --version $(VERSION) --arch $(ARCH) --glibc $(CLIENT_GLIBC)

$(eval $(call needs,deb,debhelper dpkg-dev fakeroot))
#:   make deb                   Debian packages: build/deb/*.deb
deb-built: all
	@deploy/debian/build.sh $(O) $(VERSION)

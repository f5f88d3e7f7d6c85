# SPDX-License-Identifier: Apache-2.0
#
# gpupool: `make help` lists the targets.
#
# How the build is put together
#   Every folder has a build.mk that lists its sources by name and says what
#   they become, with four macros.  INCS is the list of folders on that part's
#   -I: a folder that is not listed cannot be included, which is how the layers
#   of docs/architecture.md are enforced.
#
#     $(eval $(call static_lib,NAME,SRCS,INCS,CFLAGS))
#         -> $(O)/static/libNAME.a    (position independent, hidden symbols)
#     $(eval $(call program,NAME,SRCS,INCS,CFLAGS,STATIC_LIBS,LDLIBS))
#         -> $(O)/bin/NAME            (STATIC_LIBS: names given to static_lib)
#     $(eval $(call helper_program,PATH,SRCS,INCS,CFLAGS,STATIC_LIBS,LDLIBS))
#         -> $(O)/PATH                (not installed, not part of `all`)
#     $(eval $(call shared_lib,FILE,SRCS,INCS,CFLAGS,STATIC_LIBS,LDLIBS))
#         -> $(O)/lib/FILE            (soname FILE; LDLIBS may hold -Wl,--version-script=)
#     $(eval $(call unit_test,NAME,SRCS,INCS,CFLAGS,STATIC_LIBS,LDLIBS))
#         -> $(O)/tests/unit/NAME     (cmocka is linked; collected in UNIT_TESTS)
#
#   A target for users that runs something is made in two steps: TARGET installs the
#   Debian packages that are missing, then TARGET-built does the work.  The rule that
#   the folder's build.mk writes is for TARGET-built; this makes the other one:
#
#     $(eval $(call needs,TARGET,PACKAGES,INSTEAD))   PACKAGES: besides DEB_PACKAGES, or
#         besides INSTEAD where that is given
#
#   Unit tests are registered in tests/unit/<component>/build.mk.
#   Generated sources live in $(O)/gen; whoever generates appends its stamp or
#   files to GEN_DEPS: every object waits for them.
#   Other collections: ALL (built by `make all`), CLEAN_FILES.
#
# Variables
#   O=build          output folder
#   SAN=address,undefined   sanitizers (use another O for it)
#   OPT=-O2          optimisation
#   V=1              show the commands
#   VALIDITY=no      leave the runtime validity check out of the client stub

.DEFAULT_GOAL := all
SHELL  := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# As many jobs as there are cores, unless the caller says how many.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

O      ?= build
CC     := $(if $(filter default,$(origin CC)),gcc,$(CC))
AR     ?= ar
PYTHON ?= python3
OPT    ?= -O2
PREFIX ?= /usr/local
VALIDITY ?= yes
VERSION := $(file <VERSION)

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
        -Wundef -Wpointer-arith -Wwrite-strings -Wno-unused-parameter
BASE_CFLAGS := -std=gnu11 $(OPT) -g -fPIC -fvisibility=hidden -fno-strict-aliasing \
        -fno-common -fno-omit-frame-pointer -fstack-protector-strong -pthread \
        -D_GNU_SOURCE -DGPUPOOL_VERSION='"$(VERSION)"' $(WARN)
BASE_LDFLAGS := -pthread -Wl,-z,relro,-z,now -Wl,--as-needed
ifneq ($(SAN),)
BASE_CFLAGS  += -fsanitize=$(SAN) -fno-sanitize-recover=undefined -DGP_SANITIZED=1
BASE_LDFLAGS += -fsanitize=$(SAN)
else
BASE_CFLAGS  += $(if $(filter -O0,$(OPT)),,-D_FORTIFY_SOURCE=2)
BASE_LDFLAGS += -Wl,--no-undefined
endif

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-6s %s\n' '$(1)' '$(patsubst $(O)/%,%,$(2))'
endif

ALL :=
UNIT_TESTS :=
GEN_DEPS :=

comma := ,

# objs NAME,SRCS
objs = $(patsubst %.c,$(O)/obj/$(1)/%.o,$(patsubst $(O)/gen/%,gen/%,$(2)))

# compile_rule NAME,SRC,INCS,CFLAGS: one object; sources under $(O)/gen included
define compile_rule
$(call objs,$(1),$(2)): $(2) VERSION | $$(GEN_DEPS)
	$$(call say,CC,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE_CFLAGS) $(addprefix -I,$(3)) $(4) -MMD -MP -c -o $$@ $$<
-include $(patsubst %.o,%.d,$(call objs,$(1),$(2)))
endef

define compile_all
$(foreach src,$(2),$(eval $(call compile_rule,$(1),$(src),$(3),$(4))))
endef

static_path = $(foreach lib,$(1),$(O)/static/lib$(lib).a)

# archive NAME,SRCS: of objects that are compiled elsewhere, layer by layer
define archive
$(O)/static/lib$(1).a: $(call objs,$(1),$(2))
	$$(call say,AR,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef

define static_lib
$(call compile_all,$(1),$(2),$(3),$(4))
$(call archive,$(1),$(2))
endef

# link_rule FILE,NAME,SRCS,STATIC_LIBS,LDLIBS,FLAGS
define link_rule
$(1): $(call objs,$(2),$(3)) $(call static_path,$(4))
	$$(call say,LINK,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE_LDFLAGS) $(6) -o $$@ $(call objs,$(2),$(3)) \
	    -Wl,--start-group $(call static_path,$(4)) -Wl,--end-group $(5)
endef

define program
$(call compile_all,$(1),$(2),$(3),$(4))
$(call link_rule,$(O)/bin/$(1),$(1),$(2),$(5),$(6),-pie)
ALL += $(O)/bin/$(1)
endef

define helper_program
$(call compile_all,$(subst /,_,$(1)),$(2),$(3),$(4))
$(call link_rule,$(O)/$(1),$(subst /,_,$(1)),$(2),$(5),$(6),-pie)
endef

define shared_lib
$(call compile_all,$(1),$(2),$(3),$(4))
$(call link_rule,$(O)/lib/$(1),$(1),$(2),$(5),$(6),-shared -Wl$(comma)-soname$(comma)$(1))
ALL += $(O)/lib/$(1)
endef

define unit_test
$(call compile_all,ut-$(1),$(2),$(3),$(4))
$(call link_rule,$(O)/tests/unit/$(1),ut-$(1),$(2),$(5),$(6) -lcmocka,-pie)
UNIT_TESTS += $(O)/tests/unit/$(1)
endef

define needs
DEPS_TARGETS += $(1)
DEPS_$(1) = $(strip $(or $(3),$$(DEB_PACKAGES)) $(2))
.PHONY: $(1) $(1)-built
$(1):
	@$$(MAKE) --no-print-directory deps FOR=$(1)
	@$$(MAKE) --no-print-directory $(1)-built
endef

# The order matters only for GEN_DEPS: generators come first.
PARTS := proto common tls transport softgpu/ptx softgpu/exec softgpu/jit softgpu/api client-stub \
         server drivers/null pool-scheduler cli tests tests/fuzz bench deploy docs
include $(wildcard $(addsuffix /build.mk,$(PARTS)))
include $(sort $(wildcard tests/unit/*/build.mk tests/unit/*/*/build.mk))

.PHONY: all help deps clean install unit-tests
all: $(ALL)
unit-tests: $(UNIT_TESTS)
test-programs: $(TEST_PROGRAMS)

help:
	@sed -n 's/^#: \{0,1\}//p' $(filter-out %.d,$(MAKEFILE_LIST))

#: gpupool: a remote slice of a GPU for programs nobody rebuilt
#:
#:   make               build everything into $(O)/ (build/)
#:   make deps          install the Debian packages that are missing
#:   make demo          two servers, four software cards, six programs: PASS or FAIL
#:   make test          unit and end-to-end tests; ends with N passed, N failed, N skipped
#:   make bench         ratios to the raw transport, into build/bench.json (ONLY=name)
#:   make install       PREFIX=/usr/local, DESTDIR=
#:   make clean         remove $(O)/
#:

# What the build and the tests need on a bare Debian 12.
DEB_PACKAGES := gcc libc6-dev binutils python3 clang-14 \
    libprotobuf-c-dev protobuf-c-compiler libssl-dev libsqlite3-dev libjansson-dev \
    iproute2 libmicrohttpd-dev libibverbs-dev librdmacm-dev libzstd-dev liblz4-dev libseccomp-dev libcmocka-dev \
    libcurl4-openssl-dev libnghttp2-dev

# FOR: a target (see `needs` above).
DEPS_PACKAGES = $(if $(FOR),$(DEPS_$(FOR)),$(DEB_PACKAGES))

# Without root and sudo, and where there is no Debian, the line names what is missing.
# Debian's kubectl does not install over one that another package brought, and is not
# needed then.
deps:
	@command -v dpkg-query >/dev/null || { \
	    echo "no Debian here; needed are what these packages hold: $(DEPS_PACKAGES)" >&2; exit 0; }; \
	missing=$$(for p in $(DEPS_PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || \
	    { [ $$p = kubernetes-client ] && command -v kubectl >/dev/null; } || echo $$p; done); \
	[ -z "$$missing" ] && exit 0; \
	echo "installing:" $$missing; \
	if [ "$$(id -u)" = 0 ]; then as=; elif command -v sudo >/dev/null; then as=sudo; \
	else echo "error: not root and no sudo; install them: apt-get install" $$missing >&2; exit 1; fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$as apt-get install -y --no-install-recommends $$missing >/dev/null 2>&1 || { \
	    $$as apt-get update -q >/dev/null && \
	    $$as apt-get install -y --no-install-recommends $$missing >/dev/null; } || { \
	    echo "error: apt-get could not install:" $$missing >&2; exit 1; }

.PHONY: show-packages
#:   make show-packages what Debian packages each target installs
show-packages:
	@$(foreach t,$(sort $(DEPS_TARGETS)),echo '$(t): $(DEPS_$(t))';)

clean:
	rm -rf $(O)

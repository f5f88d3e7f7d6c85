# SPDX-License-Identifier: Apache-2.0
# What shows that it is true: programs, end-to-end tests, the demo.
include tests/programs/build.mk
include tests/programs/nvrtc/build.mk
include tests/clients/build.mk
include tests/gpu/build.mk
include tests/container/build.mk
include tests/suites/build.mk
include tests/forms/build.mk
include tests/aarch64/build.mk
include tests/k8s/build.mk
include tests/apifuzz/build.mk
include tests/kernelfuzz/build.mk
include tests/compat/build.mk
include tests/vendor/build.mk
include tests/torture/build.mk
include tests/packages/build.mk
include tests/partitions/build.mk
include proto/control.mk
include tests/soak/build.mk

$(eval $(call helper_program,tests/e2e/mkticket,tests/e2e/mkticket.c,$(CTL_INCS),,$(CTL_LIBS),$(CTL_LDLIBS)))
TEST_PROGRAMS += $(O)/tests/e2e/mkticket
$(eval $(call helper_program,tests/e2e/mkproof,tests/e2e/mkproof.c,$(CTL_INCS),,wire common,-lprotobuf-c))
TEST_PROGRAMS += $(O)/tests/e2e/mkproof
$(eval $(call helper_program,tests/e2e/rekeep,tests/e2e/rekeep.c server/supervisor/srv_keep_msg.c,\
    $(SERVER_INCS),,common))
TEST_PROGRAMS += $(O)/tests/e2e/rekeep

$(eval $(call helper_program,tests/cutter/cutter,tests/cutter/cutter.c,common))
TEST_PROGRAMS += $(O)/tests/cutter/cutter

# Its prerequisites are in the Makefile, after everybody's build.mk.
.PHONY: test-programs

# The fuzzer of the worker is part of `make test`.
FUZZ_PACKAGES := libclang-rt-14-dev
$(eval $(call needs,test,$(FUZZ_PACKAGES) etcd-server))
$(foreach target,test-unit test-e2e test-asan test-tsan test-attacks test-chaos demo,\
    $(eval $(call needs,$(target))))
$(eval $(call needs,lint,clang-format-14,python3))

# Where sanitizers are on, time limits stretch and foreign binaries are left out.
RUN_TESTS = $(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --only '$(ONLY)'

.PHONY: format
#:   make test-unit, test-e2e   a part of it (ONLY=pattern)
#:   make test-asan, test-tsan  the same under sanitizers, in $(O)-asan, $(O)-tsan
#:   make lint                  the rules that a machine can check
test-built: all unit-tests test-programs
	@if [ -n '$(SAN)' ]; then $(RUN_TESTS); \
	elif command -v $(FUZZ_CC) >/dev/null; then \
	    $(MAKE) --no-print-directory fuzz-programs-of-test || exit; \
	    $(RUN_TESTS) --target test-fuzz-built --target test-fuzz-quick-built; \
	else echo 'skipped fuzzing: there is no $(FUZZ_CC)'; $(RUN_TESTS); fi
test-unit-built: unit-tests
	@$(RUN_TESTS) --unit
test-e2e-built: all test-programs
	@$(RUN_TESTS) --e2e
test-asan-built:
	@$(MAKE) --no-print-directory O=$(O)-asan SAN=address,undefined OPT=-O1 test-built
test-tsan-built:
	@$(MAKE) --no-print-directory O=$(O)-tsan SAN=thread OPT=-O1 test-built

#:   make test-attacks          what a hostile client or worker tries (ONLY=pattern)
ATTACKS := attacks* link_loss.* hostile_* refusals.* apigen.a_field* unit.test_srv_arbiter unit.test_gp_http \
    unit.test_wrk_seal
test-attacks-built: all test-programs $(O)/tests/unit/test_srv_arbiter $(O)/tests/unit/test_gp_http \
    $(O)/tests/unit/test_wrk_seal
	@$(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --only '$(or $(ONLY),$(ATTACKS))'

#:   make test-chaos            links cut, processes killed, clocks moved, cards shared, again and again;
#:                              GPUPOOL_SEED=N repeats a run
CHAOS_PARTS := resume adopt kills clock shared_cards
test-chaos-built: all test-programs unit-tests
	@$(O)/tests/unit/test_xport_resume
	@rm -f $(foreach part,$(CHAOS_PARTS),$(O)/test-logs/$(part).*.log)
	@status=0; for part in $(CHAOS_PARTS); do \
	    GPUPOOL_CHAOS=1 $(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --e2e \
	        --only "$$part.*" || status=1; \
	done; \
	grep -h '^chaos:' $(foreach part,$(CHAOS_PARTS),$(O)/test-logs/$(part).*.log); \
	exit $$status

$(eval $(call needs,test-memcheck,valgrind))
#:   make test-memcheck         the client library of most test programs under valgrind's memcheck: minutes
test-memcheck-built: all test-programs
	@GPUPOOL_MEMCHECK=1 $(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --e2e --only 'memcheck.*'

$(eval $(call needs,test-jit,$(SGJIT_PACKAGES)))
#:   make test-jit              the software card's tests, and the programs beside a remote
#:                              card's interpreter, with kernels compiled to machine code
JIT_TESTS := unit.test_sg* programs.* families.*
test-jit-built: all unit-tests test-programs
	@$(if $(SGJIT_SRCS),,echo 'there is no $(LLVM_CONFIG)'; exit 1)
	@status=0; for part in $(if $(ONLY),'$(ONLY)',$(JIT_TESTS:%='%')); do \
	    case $$part in unit.*) kind=--unit;; *) kind=--e2e;; esac; \
	    SOFTGPU_JIT=wait SOFTGPU_JIT_LIB=$(abspath $(SGJIT_LIB)) $(PYTHON) tests/run.py \
	        --build $(O) --sanitizer '$(SAN)' --slowness 4 $$kind --only "$$part" || status=1; \
	done; exit $$status

$(eval $(call needs,test-page,chromium python3-jsonschema openssl))
#:   make test-page             the scheduler's web page in headless Chromium, and its API;
#:                              the picture in docs/ is made anew
test-page-built: all test-programs
	@GPUPOOL_PAGE_PICTURE=$(abspath docs/page.png) $(PYTHON) tests/run.py --build $(O) \
	    --sanitizer '$(SAN)' --e2e --only 'page*'
	@$(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --e2e --only 'view*'

# 96 MB for one program: not in `make test`, which skips that case then and says so.
$(eval $(call needs,test-alerts,prometheus))
#:   make test-alerts           the alert rules against Debian's promtool
test-alerts-built: all test-programs
	@command -v promtool >/dev/null || { echo 'error: no promtool in PATH' >&2; exit 1; }
	@$(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --e2e --only 'alerts*'

# What tests/rdma/rdma-vm needs, with QEMU.
RDMA_PACKAGES := qemu-system-x86 busybox-static kmod cpio xz-utils zstd iproute2 \
    ibverbs-providers util-linux
$(eval $(call needs,test-rdma,$(RDMA_PACKAGES)))
#:   make test-rdma             the same over RDMA, in a virtual machine (ONLY=pattern);
#:                              see tests/rdma/rdma-vm --help
test-rdma-built: all unit-tests test-programs
	@SAN='$(SAN)' tests/rdma/run.sh $(O) '$(ONLY)'

lint-built:
	@$(PYTHON) tests/lint/lint.py
format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

demo-built: all test-programs
	@tests/demo.sh $(O)

# A driver that attacks the host from inside a worker.  "softgpu" in its path says that
# it shows software cards.
HOSTILEDRV := $(O)/tests/softgpu-hostile/libhostiledrv.so
$(HOSTILEDRV): tests/attacks/hostiledrv.c tests/attacks/attacks.c tests/attacks/attacks_channel.c \
    tests/attacks/hostile.h server/base/wrk_request.h server/base/wrk_conf.h $(O)/lib/libsoftgpu.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(addprefix -I,tests/attacks common proto tls transport server/base) -shared -o $@ $(filter %.c,$^) \
	    -Wl,--no-as-needed -L$(O)/lib -l:libsoftgpu.so -Wl,-rpath,'$$ORIGIN/../../lib'
TEST_PROGRAMS += $(HOSTILEDRV)
$(eval $(call helper_program,tests/attacks/names,tests/attacks/names.c tests/attacks/attacks.c,\
    tests/attacks common,,,-lpthread))
TEST_PROGRAMS += $(O)/tests/attacks/names

# SPDX-License-Identifier: Apache-2.0
# The programs of `make demo`: kernels to PTX by clang, hosts against -lcuda.
#
# They know nothing of gpupool: they are linked with a libcuda made of nothing
# but the names that a CUDA driver exports, as a toolkit does it, and meet their
# real libcuda.so.1 when they start.

CLANG ?= $(firstword $(shell command -v clang-14 clang 2>/dev/null) clang-14)
NVCC  ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))

DEMO_NAMES := vecadd matmul reduce histogram mandelbrot pipeline
DEMO_PTX   := $(O)/tests/ptx
# 7.0 is what sm_70 shuffles need; an older dialect than any driver in use.
DEMO_CLANG := -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 --cuda-path=/nonexistent \
    -nocudainc -nocudalib -Xclang -target-feature -Xclang +ptx70 \
    -O2 -ffp-contract=off -Wall -Wextra -Werror

$(DEMO_PTX)/%.ptx: tests/programs/kernels/%.cu tests/programs/kernels/device.h
	$(call say,PTX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(DEMO_CLANG) -S -o $@ $<

TEST_LINK := $(O)/tests/link/libcuda.so
$(TEST_LINK): tests/data/driver-names.txt
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk '/^cu/ { print "void " $$1 "(void); void " $$1 "(void) {}" }' $< | \
	    $(CC) -x c -fPIC -fno-builtin -shared -Wl,-soname,libcuda.so.1 -o $@ -

# driver_program PATH,SRCS,INCS,PTX: a program that sees CUDA and nothing else.  It
# computes what it expects as the kernels do, which are not contracted either.
define driver_program
$(call helper_program,$(1),$(2) tests/programs/util.c,$(3) tests/programs proto $(O)/gen,-Wa$(comma)-I$(DEMO_PTX) -ffp-contract=off,,-L$(dir $(TEST_LINK)) -lcuda)
$(1:%=$(O)/%): $(TEST_LINK)
$(call objs,$(subst /,_,$(1)),$(2)): $(addprefix $(DEMO_PTX)/,$(4))
TEST_PROGRAMS += $(O)/$(1)
endef

$(foreach name,$(DEMO_NAMES),$(eval $(call driver_program,tests/programs/$(name),\
    tests/programs/$(name).c tests/programs/prog.c,,$(name).ptx)))

$(eval $(call driver_program,tests/programs/features,\
    tests/programs/features.c tests/programs/prog.c,,features.ptx))
$(eval $(call driver_program,tests/programs/managed,\
    tests/programs/managed.c tests/programs/prog.c,,features.ptx))
$(eval $(call driver_program,tests/programs/managed_traffic,\
    tests/programs/managed_traffic.c tests/programs/prog.c,,features.ptx))
$(eval $(call driver_program,tests/programs/managed_ends,\
    tests/programs/managed_ends.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/managed_limit,tests/programs/managed_limit.c,,))
$(eval $(call driver_program,tests/programs/landing,\
    tests/programs/landing.c tests/programs/pages.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/held,\
    tests/programs/held.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/pinned,\
    tests/programs/pinned.c tests/programs/pages.c tests/programs/prog.c,,spin.ptx))
$(foreach name,unified flags,$(eval $(call driver_program,tests/programs/$(name),\
    tests/programs/$(name).c tests/programs/prog.c,,unified.ptx)))
$(eval $(call driver_program,tests/programs/threads,\
    tests/programs/threads.c tests/programs/prog.c,,spin.ptx))
$(foreach name,graphs conditions textures rarecalls graphcopies clusters faults order \
    shareable notices graphends space spares moves asked queries elapsed updates waited nodes hostfuncs hostnodes waitnodes forbidden unsafe shapes callbacks rooms processes primary greens ends unmapped sources arraypieces handles cancelled kept retained reloads rules sampled boxes batches listings advice stated loading,$(eval $(call driver_program,tests/programs/$(name),\
    tests/programs/$(name).c,,)))
$(eval $(call driver_program,tests/programs/probes,$(addprefix tests/programs/,probes.c \
    probes_faults.c probes_old.c probes_graphs.c probes_memory.c probes_objects.c),,))
$(eval $(call driver_program,tests/programs/cudash,tests/programs/cudash.c,,))
$(eval $(call driver_program,tests/programs/limits,\
    tests/programs/limits.c tests/programs/prog.c,,))
$(eval $(call driver_program,tests/programs/cards,\
    tests/programs/cards.c tests/programs/prog.c,,))
$(foreach name,blocking linking ipc,$(eval $(call driver_program,tests/programs/$(name),\
    tests/programs/$(name).c tests/programs/prog.c,,)))
$(eval $(call driver_program,tests/programs/sharedcards,\
    tests/programs/sharedcards.c tests/programs/prog.c,,))
$(eval $(call driver_program,tests/programs/counted,\
    tests/programs/counted.c tests/programs/prog.c,,))
$(eval $(call driver_program,tests/programs/copies,\
    tests/programs/copies.c tests/programs/prog.c,,))
$(eval $(call driver_program,tests/programs/confined,\
    tests/programs/confined.c tests/programs/prog.c,,where.ptx))
$(eval $(call driver_program,tests/programs/tiny,\
    tests/programs/tiny.c tests/programs/prog.c,,))
TEST_PROGRAMS += $(DEMO_PTX)/spin.ptx

# The same kernels as ordinary runtime-API programs, where there is an nvcc.
# Its own PTX is kept beside the machine code: software cards need it.
ifneq ($(NVCC),)
DEMO_NVCC := -std=c++17 -O2 -fmad=false -Xcompiler -Wall -Itests/programs \
    -Itests/programs/kernels -gencode arch=compute_75,code=sm_75 \
    -gencode arch=compute_75,code=compute_75 \
    $(foreach lib,lib64 lib,-Xlinker -rpath=$(abspath $(dir $(realpath $(NVCC)))../$(lib)))

# The host compiler of nvcc is not asked for sanitizers: these programs stand
# for binaries that somebody else built.
$(O)/tests/programs/nv-util.o: tests/programs/util.c tests/programs/util.h
	$(Q)mkdir -p $(@D)
	$(Q)gcc -std=gnu11 -O2 -c -o $@ $<

define runtime_program
$(O)/tests/programs/$(1)-$(2): tests/programs/cudart/rt_$(1).cu tests/programs/kernels/$(1).cu \
    tests/programs/cudart/rt.h $(wildcard tests/programs/ref_$(1).h) $(O)/tests/programs/nv-util.o
	$$(call say,NVCC,$$@)
	$$(Q)$(NVCC) $(DEMO_NVCC) -cudart $(2) -o $$@ $$< $(O)/tests/programs/nv-util.o
TEST_PROGRAMS += $(O)/tests/programs/$(1)-$(2)
endef
define managed_program
$(O)/tests/programs/managed-$(1): tests/programs/cudart/rt_managed.cu
	$$(call say,NVCC,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$(NVCC) $(DEMO_NVCC) -cudart $(1) -o $$@ $$<
TEST_PROGRAMS += $(O)/tests/programs/managed-$(1)
endef
$(foreach kind,static shared,$(eval $(call managed_program,$(kind))))

$(foreach name,$(DEMO_NAMES) features,$(foreach kind,static shared,\
    $(eval $(call runtime_program,$(name),$(kind)))))
endif
$(eval $(call driver_program,tests/programs/flood,\
    tests/programs/flood.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/beside,\
    tests/programs/beside.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/wakers,\
    tests/programs/wakers.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/turns,\
    tests/programs/turns.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/overtaken,\
    tests/programs/overtaken.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/released,\
    tests/programs/released.c tests/programs/prog.c,,spin.ptx))
$(eval $(call driver_program,tests/programs/graphframe,\
    tests/programs/graphframe.c tests/programs/prog.c,,spin.ptx))

# Wrong arguments for every call, against a whole pool.
$(eval $(call helper_program,tests/programs/negative,tests/programs/negative.c \
    $(GEN_NEGATIVE_SRCS),common proto $(O)/gen,-DNEGATIVE_FIND,,-L$(dir $(TEST_LINK)) -lcuda))
$(O)/tests/programs/negative: $(TEST_LINK)
TEST_PROGRAMS += $(O)/tests/programs/negative

# Failing calls that need no answer, one by one.  The driver that fails them is found by
# its path; "softgpu" in it says that cards are counted as softgpu counts them.
$(eval $(call helper_program,tests/programs/deferred,tests/programs/deferred.c \
    tests/faultdrv/stem.c $(GEN_NEGATIVE_SRCS),tests/faultdrv common proto $(O)/gen,,,\
    -L$(dir $(TEST_LINK)) -lcuda))
$(O)/tests/programs/deferred: $(TEST_LINK)
TEST_PROGRAMS += $(O)/tests/programs/deferred

# Calls that fail in the course of a copy between servers.
$(eval $(call helper_program,tests/programs/halves,tests/programs/halves.c,\
    tests/faultdrv common proto $(O)/gen,,,-L$(dir $(TEST_LINK)) -lcuda))
$(O)/tests/programs/halves: $(TEST_LINK)
TEST_PROGRAMS += $(O)/tests/programs/halves

ifeq ($(shell uname -m),x86_64)
FAULTDRV := $(O)/tests/softgpu-fault/libfaultdrv.so
$(FAULTDRV): tests/faultdrv/faultdrv.c tests/faultdrv/ipc.c tests/faultdrv/stem.c tests/faultdrv/faultdrv.h \
    tests/faultdrv/names.awk tests/data/driver-names.txt
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk -f tests/faultdrv/names.awk tests/data/driver-names.txt >$(@D)/names.s
	$(Q)$(CC) $(BASE_CFLAGS) -Itests/faultdrv -shared -o $@ $(filter %.c,$^) $(@D)/names.s
TEST_PROGRAMS += $(FAULTDRV)
endif

# A driver that takes its worker over (tests/e2e/test_attacks_arbiter.py).  "softgpu" in
# its path says how cards are counted.  It reads what it finds, so no sanitizer looks on.
ATTACKDRV := $(O)/tests/softgpu-attack/libattackdrv.so
$(ATTACKDRV): tests/attackdrv/attackdrv.c $(O)/lib/libsoftgpu.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize=%,$(BASE_CFLAGS)) -shared -o $@ $< -Wl,--no-as-needed \
	    -L$(O)/lib -lsoftgpu -ldl -lpthread -Wl,-rpath,$(abspath $(O)/lib)
TEST_PROGRAMS += $(ATTACKDRV)

# A driver whose card clears nothing (tests/e2e/test_attacks_residue.py).
RESIDUEDRV := $(O)/tests/softgpu-residue/libresiduedrv.so
$(RESIDUEDRV): tests/residuedrv/residuedrv.c $(O)/lib/libsoftgpu.so | $(GEN_DEPS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -Itests/programs -Iproto -I$(O)/gen -shared -o $@ $< -Wl,--no-as-needed \
	    -L$(O)/lib -l:libsoftgpu.so -ldl -Wl,-rpath,$(abspath $(O)/lib)
TEST_PROGRAMS += $(RESIDUEDRV)

# Opens the library itself, so it is linked with none.
$(eval $(call helper_program,tests/programs/reopened,tests/programs/reopened.c,\
    tests/programs proto $(O)/gen,,,-ldl))
TEST_PROGRAMS += $(O)/tests/programs/reopened

# Threads, host functions and a fork against a whole pool (tests/e2e/test_stub_stress.py).
$(eval $(call driver_program,tests/programs/stress,tests/programs/stress.c,,))
$(eval $(call driver_program,tests/programs/residue,\
    tests/programs/residue.c tests/programs/prog.c,,))

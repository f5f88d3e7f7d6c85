# SPDX-License-Identifier: Apache-2.0
# Benchmarks: ratios to the raw transport, taken side by side in one run.

RAW_SRCS := $(addprefix bench/,bench.c rows.c raw_link.c raw_ring.c raw_setting.c)
$(eval $(call helper_program,bench/raw_search,bench/raw_search.c $(RAW_SRCS),\
    bench tests/programs proto $(O)/gen))
TEST_PROGRAMS += $(O)/bench/raw_search
$(eval $(call driver_program,bench/fast,bench/fast.c $(RAW_SRCS),bench,vecadd.ptx))
$(eval $(call driver_program,bench/real,$(addprefix bench/,real.c real_graph.c real_memory.c net.c) $(RAW_SRCS),bench))
$(eval $(call driver_program,bench/clients,bench/clients.c $(RAW_SRCS),bench))
$(eval $(call driver_program,bench/sessions,bench/sessions.c bench/bench.c,bench,vecadd.ptx))
$(eval $(call driver_program,bench/turns,bench/turns.c bench/bench.c,bench,vecadd.ptx))
$(eval $(call driver_program,bench/step,bench/step.c bench/bench.c,bench,vecadd.ptx))
$(eval $(call driver_program,bench/transfer,bench/transfer.c bench/bench.c,bench))
$(eval $(call driver_program,bench/resume,bench/resume.c bench/bench.c,bench))
$(eval $(call driver_program,bench/image,bench/image.c bench/bench.c,bench,vecadd.ptx))
$(eval $(call driver_program,bench/attach,bench/attach.c bench/bench.c,bench))
$(eval $(call helper_program,bench/raw_tls,bench/raw_tls.c bench/bench.c,\
    bench tests/programs proto $(O)/gen,,,-lssl -lcrypto))
$(eval $(call driver_program,bench/shares,bench/shares.c bench/bench.c,bench common,busy.ptx))
$(eval $(call helper_program,bench/delay_proxy,bench/delay_proxy.c bench/bench.c,\
    bench tests/programs proto $(O)/gen))
$(eval $(call helper_program,bench/payload,bench/payload.c bench/bench.c,\
    bench tests/programs proto $(O)/gen transport common,,transport common))

BENCH_PROGRAMS := $(addprefix $(O)/bench/,fast turns real clients sessions raw_search step transfer image attach resume raw_tls delay_proxy payload place scheduler week sched_load etcd_wire shares softgpu-kernels) \
    $(O)/tests/programs/cudash $(O)/tests/k8s/podprobe

# `make test` builds them too, and so sees when one compiles no more.
ifeq ($(SAN),)
TEST_PROGRAMS += $(filter $(O)/bench/%,$(BENCH_PROGRAMS))
endif

# The part over RDMA runs in a guest, beside the measure of its adapter.
$(eval $(call needs,bench,$(RDMA_PACKAGES) perftest $(SGJIT_PACKAGES)))
bench-built: all $(BENCH_PROGRAMS)
	@$(PYTHON) bench/run.py --build $(O) --only '$(ONLY)'

# The executor of the software GPU against gcc -O3 of the same C, on one core.
$(O)/bench/softgpu-kernels.ptx: bench/softgpu/kernels.cu
	$(call say,PTX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -ffp-contract=off,$(DEMO_CLANG)) -S -o $@ $<

SGREF_CFLAGS := -O3 -march=native -fno-math-errno
$(eval $(call static_lib,sgref,bench/softgpu/ref.c,bench/softgpu,$(SGREF_CFLAGS) -DREF_TABLE=ref_plain))
$(eval $(call static_lib,sgref-fast,bench/softgpu/ref.c,bench/softgpu,$(SGREF_CFLAGS) -ffast-math -DREF_TABLE=ref_fast))
$(eval $(call helper_program,bench/softgpu-kernels,bench/softgpu/kernels.c,\
    bench/softgpu $(SGEXEC_INCS),-Wa$(comma)-I$(O)/bench,sgref sgref-fast sgexec ptx common,-lm))
$(O)/obj/bench_softgpu-kernels/bench/softgpu/kernels.o: $(O)/bench/softgpu-kernels.ptx

$(eval $(call needs,bench-softgpu,$(SGJIT_PACKAGES)))
#:   make bench-softgpu the software GPU's kernels against gcc -O3, one core
#:                      by the interpreter, then compiled (docs/softgpu-jit.md)
bench-softgpu-built: $(O)/bench/softgpu-kernels $(if $(SGJIT_SRCS),$(SGJIT_LIB))
	@$(O)/bench/softgpu-kernels
	@$(if $(SGJIT_SRCS),SOFTGPU_JIT=wait SOFTGPU_JIT_LIB=$(SGJIT_LIB) $(O)/bench/softgpu-kernels,\
	    echo 'compiled: skipped; install $(SGJIT_PACKAGES)')

$(eval $(call needs,bench-week))
#:   make bench-week    a simulated week of a cluster under every placement policy
bench-week-built: $(O)/bench/week
	@$(PYTHON) bench/week.py $(O) $(PART) $(LOAD) $(SEEDS)

$(eval $(call needs,bench-trips))
#:   make bench-trips   calls of PyTorch, CuPy, Numba and JAX that wait for the server
bench-trips-built: all
	@$(PYTHON) bench/trips.py --build $(O) $(if $(ONLY),--only $(ONLY))

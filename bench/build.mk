# SPDX-License-Identifier: Apache-2.0
# Benchmarks: ratios to the raw transport, taken side by side in one run.

$(eval $(call driver_program,bench/fast,bench/fast.c bench/bench.c bench/raw_link.c bench/raw_ring.c,bench,vecadd.ptx))
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

BENCH_PROGRAMS := $(addprefix $(O)/bench/,fast step transfer image attach resume raw_tls delay_proxy payload place scheduler sched_load shares softgpu-kernels) \
    $(O)/tests/programs/cudash $(O)/tests/k8s/podprobe

# The part over RDMA runs in a guest, beside the measure of its adapter.
$(eval $(call needs,bench,$(RDMA_PACKAGES) perftest))
bench-built: all $(BENCH_PROGRAMS)
	@$(PYTHON) bench/run.py --build $(O) --only '$(ONLY)'

# The executor of the software GPU against gcc -O3 of the same C, on one core.
$(O)/bench/softgpu-kernels.ptx: bench/softgpu/kernels.cu
	$(call say,PTX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -ffp-contract=off,$(DEMO_CLANG)) -S -o $@ $<

$(eval $(call static_lib,sgref,bench/softgpu/ref.c,bench/softgpu,-O3 -march=native -fno-math-errno))
$(eval $(call helper_program,bench/softgpu-kernels,bench/softgpu/kernels.c,\
    bench/softgpu $(SGEXEC_INCS),-Wa$(comma)-I$(O)/bench,sgref sgexec ptx common,-lm))
$(O)/obj/bench_softgpu-kernels/bench/softgpu/kernels.o: $(O)/bench/softgpu-kernels.ptx

$(eval $(call needs,bench-softgpu))
#:   make bench-softgpu the software GPU's kernels against gcc -O3, one core
bench-softgpu-built: $(O)/bench/softgpu-kernels
	@$(O)/bench/softgpu-kernels

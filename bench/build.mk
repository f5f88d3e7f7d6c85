# SPDX-License-Identifier: Apache-2.0
# Benchmarks: ratios to the raw transport, taken side by side in one run.

$(eval $(call driver_program,bench/fast,bench/fast.c bench/bench.c bench/raw_link.c bench/raw_ring.c,bench,vecadd.ptx))
$(eval $(call driver_program,bench/step,bench/step.c bench/bench.c,bench,vecadd.ptx))
$(eval $(call helper_program,bench/delay_proxy,bench/delay_proxy.c bench/bench.c,\
    bench tests/programs proto $(O)/gen))

BENCH_PROGRAMS := $(O)/bench/fast $(O)/bench/step $(O)/bench/delay_proxy

.PHONY: bench
bench: all $(BENCH_PROGRAMS)
	@$(PYTHON) bench/run.py --build $(O) --only '$(ONLY)'

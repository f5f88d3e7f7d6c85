# SPDX-License-Identifier: Apache-2.0
# Random programs against the driver itself: docs/fuzzing.md.
$(eval $(call driver_program,tests/apifuzz/replay,tests/apifuzz/replay_main.c tests/apifuzz/replay_program.c \
    tests/apifuzz/replay_contexts.c tests/apifuzz/replay_streams.c \
    tests/apifuzz/replay_memory.c tests/apifuzz/replay_arrays.c tests/apifuzz/replay_graphs.c \
    tests/apifuzz/replay_mapped.c,tests/apifuzz))

$(eval $(call needs,fuzz-api))
$(eval $(call needs,fuzz-api-asan))
CALLS ?= 0
SECONDS ?= $(if $(CALLS:0=),0,60)
SEED ?= 1
#:   make fuzz-api              random programs on a software card and on slices of it, compared
#:                              (SECONDS=60, or CALLS= so many; SEED=1: the first one; TWICE=1:
#:                              also on the card against itself); see docs/fuzzing.md
fuzz-api-built: all $(O)/tests/apifuzz/replay
	@$(PYTHON) -B tests/apifuzz/fuzz.py --build $(O) --seconds $(SECONDS) --calls $(CALLS) \
	    --seed $(SEED) $(if $(TWICE),--twice)
#:   make fuzz-api-asan         the same with address and undefined-behaviour sanitizers in $(O)-asan
fuzz-api-asan-built:
	@$(MAKE) --no-print-directory O=$(O)-asan SAN=address,undefined OPT=-O1 fuzz-api-built

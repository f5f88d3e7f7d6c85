# SPDX-License-Identifier: Apache-2.0
# libFuzzer targets.  They need clang (warnings are gcc's business).  `make fuzz
# FUZZ_SECONDS=60` runs each in turn, with the corpus of earlier runs in
# $(O)/fuzz/corpus-NAME.
FUZZ_CC ?= $(firstword $(shell command -v clang clang-14 2>/dev/null) clang-14)
FUZZ_SECONDS ?= 20
# Of the build that `make fuzz-coverage` makes beside this one.
FUZZ_COVERAGE ?=
FUZZ_CFLAGS := -std=gnu11 -O1 -g -D_GNU_SOURCE -fsanitize=fuzzer-no-link,address \
    -fno-omit-frame-pointer -w -DGPUPOOL_VERSION='"fuzz"' $(FUZZ_COVERAGE)
FUZZ_OBJECTS :=
FUZZ_UB := -fsanitize=undefined -fno-sanitize-recover=undefined

# fuzz_target NAME,SRCS,INCS,LDLIBS: everything is compiled anew, instrumented
define fuzz_target
$(foreach src,tests/fuzz/$(1).c $(2),$(call fuzz_object,$(1),$(src),$(3)))
$(O)/fuzz/$(1): $(foreach src,tests/fuzz/$(1).c $(2),$(call fuzz_path,$(1),$(src)))
	$$(call say,FUZZLD,$$@)
	$$(Q)$$(FUZZ_CC) -fsanitize=fuzzer,address,undefined $$(FUZZ_COVERAGE) -o $$@ $$^ $(4)
FUZZ_TARGETS += $(1)
endef

# What many targets have in common is compiled once, with the headers of its own layer.
FUZZ_SHARED := common transport tls proto softgpu/ptx
FUZZ_INCS_common := common
FUZZ_INCS_transport := transport common
FUZZ_INCS_tls := tls common
FUZZ_INCS_proto := common proto tls $(O)/gen
FUZZ_INCS_softgpu/ptx := common softgpu/ptx
fuzz_layer = $(filter $(FUZZ_SHARED),$(patsubst %/,%,$(dir $(1))))
fuzz_path = $(O)/fuzz/obj/$(if $(call fuzz_layer,$(2)),shared,$(1))/$(2:.c=.o)
fuzz_object = $(if $(filter $(call fuzz_path,$(1),$(2)),$(FUZZ_OBJECTS)),,$(eval \
    $(call fuzz_rule,$(call fuzz_path,$(1),$(2)),$(2),$(if $(call fuzz_layer,$(2)),\
        $(FUZZ_INCS_$(call fuzz_layer,$(2))),$(3)))))

# fuzz_rule OBJECT,SRC,INCS.  The loops of the interpreter and of the hash take minutes
# with checks of every shift and index.
define fuzz_rule
FUZZ_OBJECTS += $(1)
$(1): $(2) | $$(GEN_DEPS)
	$$(call say,FUZZCC,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(FUZZ_CC) $$(FUZZ_CFLAGS) $(if $(findstring interp,$(2))$(findstring blake3,$(2)),,$(FUZZ_UB)) \
	    $(addprefix -I,$(3)) -MMD -MP -c -o $$@ $$<
-include $(1:.o=.d)
endef

FUZZ_PTX_SRCS := $(PTX_SRCS) $(COMMON_SRCS) $(FATBIN_SRCS)
$(eval $(call fuzz_target,fuzz_ptx,$(FUZZ_PTX_SRCS) $(KERNEL_PARAMS_SRCS),\
    common softgpu/ptx server/kernel_params,-lzstd -llz4))
$(eval $(call fuzz_target,fuzz_image,$(FUZZ_PTX_SRCS),common softgpu/ptx,-lzstd -llz4))

# What the worker reads of images for drivers that do not tell.
$(eval $(call fuzz_target,fuzz_layout,$(KERNEL_PARAMS_SRCS) $(COMMON_SRCS) $(FATBIN_SRCS),\
    server/kernel_params common,-lzstd -llz4))

# Control plane.
CTL_FUZZ_SRCS := $(CTL_SRCS) $(COMMON_SRCS)
$(eval $(call fuzz_target,fuzz_ticket,$(CTL_FUZZ_SRCS),$(CTL_INCS),$(CTL_LDLIBS)))
$(eval $(call fuzz_target,fuzz_srv,$(COMMON_SRCS),common,))
$(eval $(call fuzz_target,fuzz_scheduler,$(SCHED_CORE_SRCS) $(SCHED_SRCS) $(KUBE_SRCS) $(CTL_FUZZ_SRCS) $(TLS_SRCS) $(HTTP_SRCS),$(SCHED_INCS),$(SCHED_LDLIBS) -lssl -lcrypto))

# The records of the scheduler's store.
$(eval $(call fuzz_target,fuzz_store,$(SCHED_CORE_SRCS) pool-scheduler/sched_session.c pool-scheduler/account/sched_account.c \
    $(addprefix pool-scheduler/store/,store_records.c store_check.c) \
    $(O)/gen/store.pb-c.c $(CTL_FUZZ_SRCS),$(SCHED_INCS),$(CTL_LDLIBS)))

# The server's attach port, the client's side of it and of the control plane, and the
# server's configuration.
$(eval $(call fuzz_target,fuzz_attach,$(addprefix server/supervisor/srv_,attach.c rates.c ending.c) \
    proto/attach_proof.c $(O)/gen/attach.pb-c.c $(TLS_SRCS) $(CTL_FUZZ_SRCS),$(SERVER_INCS),$(CTL_LDLIBS) -lssl -lcrypto))
$(eval $(call fuzz_target,fuzz_client,$(TRANSPORT_SRCS) client-stub/link/stub_answer.c client-stub/link/stub_secure.c client-stub/base/stub_thread.c \
    tls/tls_found.c tls/tls_policy.c proto/attach_proof.c $(O)/gen/attach.pb-c.c \
    $(CTL_FUZZ_SRCS),$(STUB_DIRS) transport $(CTL_INCS),$(CTL_LDLIBS) -ldl -lpthread))
$(eval $(call fuzz_target,fuzz_agent,$(addprefix cli/cli_,agent.c renewer.c ctl.c reply.c pool.c folder.c path.c) \
    $(TLS_SRCS) $(CTL_FUZZ_SRCS),cli $(CTL_INCS),$(CTL_LDLIBS) -lssl -lcrypto))
$(eval $(call fuzz_target,fuzz_conf,server/supervisor/srv_conf.c $(filter-out common/gp_option.c,$(COMMON_SRCS)),$(SERVER_INCS),))

# The executor, with the lowest build of its interpreter only.
FUZZ_EXEC_SRCS := $(FUZZ_PTX_SRCS) $(filter-out %_v3.c %_v4.c,$(SGEXEC_SRCS))
$(eval $(call fuzz_target,fuzz_exec,$(FUZZ_EXEC_SRCS),$(SGEXEC_ALL_INCS),\
    -lzstd -llz4 -lm))

# The worker's dispatch; sources under $(O) are compiled where they lie.
$(O)/fuzz/obj/fuzz_dispatch/dispatch.o: $(GEN_WRK_SRCS) $(GEN_TEST_SRCS) | $(GEN_DEPS)
	$(call say,FUZZCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)for c in $^; do $(FUZZ_CC) $(FUZZ_CFLAGS) $(FUZZ_UB) $(addprefix -I,$(SERVER_DIRS)) \
	    -Icommon -Iproto -Itls -Itests/unit -Itests/unit/proto -I$(O)/gen -c -o $(@D)/$$(basename $$c .c).part.o $$c || exit 1; done
	$(Q)$(LD) -r -o $@ $(@D)/*.part.o
$(O)/fuzz/fuzz_dispatch: $(O)/fuzz/obj/fuzz_dispatch/dispatch.o
$(eval $(call fuzz_target,fuzz_dispatch,tests/unit/proto/gen_loop.c,$(STUB_DIRS) $(SERVER_DIRS) tls common \
    proto tests/unit tests/unit/proto $(O)/gen))

# The worker, with the calls that are written by hand, before a driver that ends the
# program when a number of the client's arrives as a pointer.
$(O)/fuzz/obj/fuzz_worker/gen.o: $(GEN_WRK_SRCS) $(GEN_DRV_SRCS) $(GEN_GUARD_SRCS) \
    $(O)/gen/wire_tables.c $(O)/gen/attach.pb-c.c $(O)/gen/control.pb-c.c | $(GEN_DEPS)
	$(call say,FUZZCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)for c in $^; do $(FUZZ_CC) $(FUZZ_CFLAGS) $(FUZZ_UB) $(addprefix -I,$(SERVER_INCS)) \
	    -Itests/fuzz -c -o $(@D)/$$(basename $$c .c).part.o $$c || exit 1; done
	$(Q)$(LD) -r -o $@ $(@D)/*.part.o
$(O)/fuzz/fuzz_worker: $(O)/fuzz/obj/fuzz_worker/gen.o | $(O)/lib/libnulldrv.so
$(O)/fuzz/obj/fuzz_worker/tests/fuzz/fuzz_worker.o: server/entry/wrk_main.c
$(eval $(call fuzz_target,fuzz_worker,tests/fuzz/guard.c \
    $(filter-out %/wrk_main.c,$(WRK_SRCS)) $(KERNEL_PARAMS_SRCS) $(filter proto/%,$(CTL_SRCS)) $(TRANSPORT_SRCS) $(COMMON_SRCS) \
    $(FATBIN_SRCS) tls/tls_found.c proto/wire_image.c proto/wire_lines.c proto/wire_trace.c \
    $(filter-out $(WRK_SRCS),$(ARBITER_SRCS)),\
    $(SERVER_INCS) tests/fuzz,$(CTL_LDLIBS) -lseccomp -lzstd -llz4 -ldl -lpthread \
    $(addprefix -Wl$(comma)--wrap=wrk_unified_,reserve map unmap)))

# Payloads in blocks.
$(eval $(call fuzz_target,fuzz_block,$(TRANSPORT_SRCS) $(COMMON_SRCS),transport common,-ldl -lpthread))

# Links that break, records of TLS, rings that the other process writes to.
$(eval $(call fuzz_target,fuzz_resume,$(TRANSPORT_SRCS) $(COMMON_SRCS),transport common,-ldl -lpthread))
$(eval $(call fuzz_target,fuzz_record,tls/tls_record.c tls/tls_crypto.c $(COMMON_SRCS),tls common,-lcrypto))
$(eval $(call fuzz_target,fuzz_ring,transport/xport_ring.c transport/xport_wakefd.c $(COMMON_SRCS),transport common,-lpthread))

# What an RDMA peer sends and writes, by an adapter of the target's own.
$(O)/fuzz/obj/fuzz_rdma/tests/fuzz/fuzz_rdma.o: transport/xport_rdma_cm.c
$(eval $(call fuzz_target,fuzz_rdma,$(filter-out %/xport_rdma_cm.c,$(TRANSPORT_SRCS)) $(COMMON_SRCS),transport common,-ldl -lpthread))

# Memory of a supervisor of before, the operator's files, and what the scheduler reads of
# browsers and of etcd.
$(eval $(call fuzz_target,fuzz_kept,$(ARBITER_SRCS) server/supervisor/srv_state.c server/supervisor/srv_keeper.c \
    server/supervisor/srv_keep_msg.c $(CTL_FUZZ_SRCS),$(SERVER_INCS),$(CTL_LDLIBS) -lpthread))
$(eval $(call fuzz_target,fuzz_files,pool-scheduler/sched_tokens.c $(CTL_FUZZ_SRCS),$(SCHED_INCS),$(CTL_LDLIBS)))
$(eval $(call fuzz_target,fuzz_view,pool-scheduler/view/view_request.c $(CTL_FUZZ_SRCS),$(SCHED_INCS),$(CTL_LDLIBS)))
$(eval $(call fuzz_target,fuzz_etcd,$(addprefix pool-scheduler/store/,etcd_http.c etcd_history.c store_events.c store_trouble.c store_batch.c) \
    $(CTL_FUZZ_SRCS),$(SCHED_INCS),$(CTL_LDLIBS) -lcurl -lpthread))

# Every word of the language, for the mutations.
$(O)/fuzz/ptx.dict: softgpu/ptx/ptx_words.h
	$(Q)mkdir -p $(@D)
	$(Q)grep -o '"[^"]*"' $< | sort -u > $@

# Seeds and a fixed number of mutations of them, always the same.  A worker ends with its
# client, so what belongs to the driver's objects is not freed before.  The seeds are what
# tests/fuzz/record.py writes down between programs and their workers.
$(eval $(call needs,test-fuzz,$(FUZZ_PACKAGES)))
#:   make test-fuzz             fuzz_worker: its seeds and a fixed number of executions
test-fuzz-built: $(O)/fuzz/fuzz_worker
	$(Q)mkdir -p $(O)/fuzz/corpus-test
	$(Q)ASAN_OPTIONS=detect_leaks=0 $(O)/fuzz/fuzz_worker -runs=3000 -seed=1 -timeout=20 -rss_limit_mb=2048 \
	    -max_len=8192 -verbosity=0 -detect_leaks=0 -artifact_prefix=$(O)/fuzz/ \
	    $(O)/fuzz/corpus-test tests/fuzz/seeds-worker >$(O)/fuzz/fuzz_worker.log 2>&1 || \
	    { tail -60 $(O)/fuzz/fuzz_worker.log; exit 1; }
	@echo "ok fuzz_worker"

# Every other target, from its kept seeds: 20,000 executions or FUZZ_QUICK_SECONDS.
FUZZ_QUICK = $(filter-out fuzz_worker,$(FUZZ_TARGETS))
FUZZ_QUICK_SECONDS ?= 2
$(eval $(call needs,test-fuzz-quick,$(FUZZ_PACKAGES)))
#:   make test-fuzz-quick       every other target: kept seeds and up to 20,000 executions
test-fuzz-quick-built: $(addprefix $(O)/fuzz/,$(FUZZ_QUICK))
	@for t in $(FUZZ_QUICK); do \
	    mkdir -p $(O)/fuzz/corpus-quick-$$t; own=tests/fuzz/seeds-$$t; [ -d $$own ] || own=; \
	    case $$t in fuzz_ptx|fuzz_image|fuzz_layout|fuzz_exec) own="$$own tests/fuzz/seeds";; esac; \
	    $(O)/fuzz/$$t -runs=20000 -max_total_time=$(FUZZ_QUICK_SECONDS) -seed=1 -timeout=60 -rss_limit_mb=2048 \
	        -max_len=8192 -verbosity=0 \
	        -artifact_prefix=$(O)/fuzz/ $(O)/fuzz/corpus-quick-$$t $$own >$(O)/fuzz/$$t.log 2>&1 || \
	        { tail -60 $(O)/fuzz/$$t.log; exit 1; }; echo "ok $$t"; \
	done

# Compiled before the tests begin, so that no compiler takes a test's processor.
.PHONY: fuzz-programs-of-test
fuzz-programs-of-test: $(addprefix $(O)/fuzz/,$(FUZZ_TARGETS))

# Lines and branches that the corpora reach, those of earlier `make fuzz` included, of the
# sources that targets.txt names for the target; tests/fuzz/floors.txt says the least.
FUZZ_COV_O := $(O)/fuzz-coverage
FUZZ_LLVM ?= $(if $(shell command -v llvm-cov-14 2>/dev/null),-14)
FUZZ_COV_TARGETS := $(if $(ONLY),$(filter $(subst *,%,$(ONLY)),$(FUZZ_TARGETS)),$(FUZZ_TARGETS))
$(eval $(call needs,fuzz-coverage,$(FUZZ_PACKAGES)))
#:   make fuzz-coverage         what each fuzz target's corpus covers (ONLY=NAME); fails below
#:                              tests/fuzz/floors.txt
fuzz-coverage-built: $(O)/lib/libnulldrv.so
	@$(MAKE) --no-print-directory O=$(FUZZ_COV_O) ONLY= \
	    FUZZ_COVERAGE='-fprofile-instr-generate -fcoverage-mapping' \
	    $(FUZZ_COV_TARGETS:%=$(FUZZ_COV_O)/fuzz/%) >/dev/null
	@tests/fuzz/coverage.sh $(FUZZ_COV_O) $(O)/fuzz '$(FUZZ_LLVM)' $(FUZZ_COV_TARGETS)

# Each corpus, with what adds no coverage left out.
$(eval $(call needs,fuzz-minimise,$(FUZZ_PACKAGES)))
#:   make fuzz-minimise         drop what adds nothing from the corpora of `make fuzz`
fuzz-minimise-built: $(addprefix $(O)/fuzz/,$(FUZZ_TARGETS))
	@for t in $(FUZZ_TARGETS); do \
	    [ -d $(O)/fuzz/corpus-$$t ] || continue; \
	    rm -rf $(O)/fuzz/small-$$t && mkdir $(O)/fuzz/small-$$t; \
	    ASAN_OPTIONS=detect_leaks=0 $(O)/fuzz/$$t -merge=1 -detect_leaks=0 $(O)/fuzz/small-$$t \
	        $(O)/fuzz/corpus-$$t >/dev/null 2>&1 || exit 1; \
	    rm -rf $(O)/fuzz/corpus-$$t && mv $(O)/fuzz/small-$$t $(O)/fuzz/corpus-$$t; \
	done

$(eval $(call needs,fuzz,$(FUZZ_PACKAGES)))
#:   make fuzz                  libFuzzer on parsers and containers (FUZZ_SECONDS=20 each)
fuzz-built: $(O)/fuzz/ptx.dict $(addprefix $(O)/fuzz/,$(FUZZ_TARGETS))
	@for t in $(FUZZ_TARGETS); do \
	    mkdir -p $(O)/fuzz/corpus-$$t; echo "$$t: $(FUZZ_SECONDS) s"; \
	    own=; leaks=1; \
	    if [ $$t = fuzz_worker ]; then own=tests/fuzz/seeds-worker leaks=0; fi; \
	    if [ -d tests/fuzz/seeds-$$t ]; then own=tests/fuzz/seeds-$$t; fi; \
	    ASAN_OPTIONS=detect_leaks=$$leaks $(O)/fuzz/$$t -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
	        -max_len=8192 -verbosity=0 -print_final_stats=1 \
	        -dict=$(O)/fuzz/ptx.dict \
	        -artifact_prefix=$(O)/fuzz/ $(O)/fuzz/corpus-$$t \
	        -detect_leaks=$$leaks $$own $(wildcard tests/fuzz/seeds) || exit 1; \
	done

# A second engine finds other inputs: the same targets with AFL++'s instrumentation.
FUZZ_AFL_O := $(O)/fuzz-afl
FUZZ_AFL_TARGETS := $(if $(ONLY),$(filter $(subst *,%,$(ONLY)),$(FUZZ_TARGETS)),$(FUZZ_TARGETS))
$(eval $(call needs,fuzz-afl,$(FUZZ_PACKAGES) afl++))
#:   make fuzz-afl              AFL++ on the same targets (FUZZ_SECONDS=20 each, ONLY=NAME)
fuzz-afl-built:
	@AFL_QUIET=1 $(MAKE) --no-print-directory O=$(FUZZ_AFL_O) FUZZ_CC=afl-clang-fast \
	    $(FUZZ_AFL_TARGETS:%=$(FUZZ_AFL_O)/fuzz/%)
	@tests/fuzz/afl.sh $(FUZZ_AFL_O) $(O)/fuzz $(FUZZ_SECONDS) $(FUZZ_AFL_TARGETS)

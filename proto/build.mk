# SPDX-License-Identifier: Apache-2.0
# The contract: API description, its generator, and what follows from both.
#
# Others use these lists; all of it is generated into $(O)/gen:
#   GEN_STUB_SRCS   exported functions, lookup map   (client-stub, proto, common)
#   GEN_WRK_SRCS    dispatch                         (server, proto, common)
#   GEN_DRV_SRCS    table of a driver's functions    (proto, common)
#   GEN_OLD_SRCS    first forms of calls and those with streams per thread, for a driver
#   GEN_NEGATIVE_SRCS   wrong arguments for every call, for tests
#   $(O)/gen/libcuda.map   version script of libcuda.so.1
# and the static library `wire`: names and formats for traces, messages of the
# attach handshake (needs -lprotobuf-c).

API_FAMILIES := entry device ctx module library func launch mem array copy memset \
    stream event graph texture pool vmm ipc peer green interop
API_FILES := $(API_FAMILIES:%=proto/api/%.api) proto/api/structs.api proto/api/internal.api
APIGEN_FILES := $(addprefix proto/apigen/,__init__.py __main__.py abi.py alias.py codec.py \
    coverage.py ctypes_.py declare.py dispatch.py drv.py emit.py gentest.py guard.py lock.py \
    model.py negative.py parse.py proc.py server_arg.py stub.py stub_arg.py trace.py twin.py)
ABI_FILES := $(addprefix proto/,cuda_abi.h cuda_abi_attr.h cuda_abi_enum.h \
    cuda_abi_graph.h cuda_abi_result.h cuda_abi_struct.h cuda_abi_types.h)
APIGEN := $(PYTHON) -B proto/apigen

GEN_STUB_SRCS := $(patsubst %,$(O)/gen/stub_%.c,$(API_FAMILIES)) $(O)/gen/stub_proc_address_map.c
GEN_WRK_SRCS := $(patsubst %,$(O)/gen/wrk_%.c,$(API_FAMILIES)) \
    $(O)/gen/wrk_internal.c $(O)/gen/wrk_dispatch.c $(O)/gen/wrk_struct.c
GEN_DRV_SRCS := $(O)/gen/drv.c
GEN_OLD_SRCS := $(O)/gen/driver_old.c $(O)/gen/driver_streams.c
GEN_TEST_SRCS := $(O)/gen/test_codec_calls.c
GEN_NEGATIVE_SRCS := $(O)/gen/negative_calls.c
GEN_GUARD_SRCS := $(O)/gen/guard_calls.c
GEN_STAMP := $(O)/gen/.stamp

$(GEN_STAMP): $(API_FILES) $(APIGEN_FILES) $(ABI_FILES) proto/wire.lock
	$(call say,APIGEN,$(O)/gen)
	$(Q)mkdir -p $(@D)
	$(Q)$(APIGEN) generate --out $(@D)
	$(Q)touch $@
$(GEN_STUB_SRCS) $(GEN_WRK_SRCS) $(GEN_DRV_SRCS) $(GEN_OLD_SRCS) $(GEN_TEST_SRCS) $(GEN_NEGATIVE_SRCS) $(GEN_GUARD_SRCS) \
$(O)/gen/wire_tables.c $(O)/gen/libcuda.map: $(GEN_STAMP) ;

$(O)/gen/attach.pb-c.h: proto/attach.proto
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(O)/gen && rm -f $(O)/gen/attach.pb-c.[ch]
	$(Q)protoc-c --proto_path=proto --c_out=$(O)/gen attach.proto
$(O)/gen/attach.pb-c.c: $(O)/gen/attach.pb-c.h ;

GEN_DEPS += $(GEN_STAMP) $(O)/gen/attach.pb-c.h

$(eval $(call static_lib,wire,proto/wire_trace.c proto/wire_image.c proto/wire_lines.c proto/attach_proof.c $(O)/gen/wire_tables.c \
    $(O)/gen/attach.pb-c.c,common proto $(O)/gen))

.PHONY: coverage show-gen gen-diff list-manual wire-lock
#:   make coverage      every driver call: carried, local or refused; docs/api-coverage.md
coverage:
	$(Q)$(APIGEN) coverage --stub client-stub --server server --doc docs/api-coverage.md

#:   make show-gen CALL=cuMemAlloc_v2    the generated pieces of one call
show-gen: $(GEN_STAMP)
	$(Q)$(APIGEN) show $(CALL) --out $(O)/gen

#:   make gen-diff      what the working tree changes in everything generated
gen-diff:
	$(Q)rm -rf $(O)/gen-head $(O)/gen-work && mkdir -p $(O)/gen-head/src
	$(Q)git archive HEAD proto | tar -x -C $(O)/gen-head/src
	$(Q)cd $(O)/gen-head/src && $(PYTHON) -B proto/apigen generate --out ../out
	$(Q)$(APIGEN) generate --out $(O)/gen-work
	$(Q)diff -ruN $(O)/gen-head/out $(O)/gen-work || true

#:   make list-manual SIDE=client|server    calls to be written by hand, and why
list-manual:
	$(Q)$(APIGEN) list-manual $(or $(SIDE),client) --source $(if $(filter server,$(SIDE)),server,client-stub)

#:   make wire-lock     enter new calls into proto/wire.lock
wire-lock:
	$(Q)$(APIGEN) lock

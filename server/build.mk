# SPDX-License-Identifier: Apache-2.0
# The pool server: its supervisor, and the worker behind each client process.
#
# In layers; each folder is compiled with its own headers and those of the layers below.
# Both processes:
#   base           what they tell each other: configuration, shared memory, requests
#   arbiter        who may use a GPU, and who may copy, now; without clock or threads
#   kernel_params  parameters of kernels, read from images; a library of its own
# The supervisor (sees base and arbiter):
#   supervisor
# The worker (sees base, arbiter and kernel_params), from the lowest layer:
#   sandbox        what the process may do; the driver's library, its sealed table
#   link           the process's state, the connection and the frames that are sent
#   objects        ids, contexts, calls, waits, host functions
#   quota          memory limits
#   scheduling     the governor: GPU time
#   transfer       payloads and copies, one path per file
#   modules        device code: images, kernels, their output
#   calls          the CUDA calls that are written by hand, and the generated dispatch
#   entry          main, attach, the loop, the lists of hooks and of driver shims
include proto/control.mk

SERVER_WORKER_LAYERS := sandbox link objects quota scheduling transfer modules calls entry
SERVER_DIRS := $(addprefix server/,base arbiter kernel_params supervisor $(SERVER_WORKER_LAYERS))
SERVER_INCS := $(SERVER_DIRS) common proto tls transport $(O)/gen

SRV_BASE_SRCS := $(addprefix server/base/wrk_,request.c)
SRV_ARBITER_SRCS := $(addprefix server/arbiter/gov_,card.c copy.c)
SRV_SUPERVISOR_SRCS := $(addprefix server/supervisor/srv_,adopt.c arbiter.c attach.c cgroup.c clone.c \
    closed.c conf.c desk.c device_files.c disposal.c ending.c export.c health.c images.c inventory.c jail.c keep_msg.c keeper.c \
    keeper_main.c kept.c ledger.c main.c metrics.c peer.c pin.c rates.c register.c reload.c report.c request.c \
    resume.c session.c spawn.c state.c watch.c worker.c worker_conf.c worker_log.c)
SRV_SRCS := $(SRV_BASE_SRCS) $(SRV_ARBITER_SRCS) $(SRV_SUPERVISOR_SRCS)

SERVER_BELOW := common proto tls transport $(O)/gen
$(eval $(call compile_all,gpupool-server,$(SRV_BASE_SRCS),server/base $(SERVER_BELOW)))
$(eval $(call compile_all,gpupool-server,$(SRV_ARBITER_SRCS),server/arbiter server/base $(SERVER_BELOW)))
$(eval $(call compile_all,gpupool-server,$(SRV_SUPERVISOR_SRCS),\
    server/supervisor server/arbiter server/base $(SERVER_BELOW)))
$(eval $(call link_rule,$(O)/bin/gpupool-server,gpupool-server,$(SRV_SRCS),wire tls $(CTL_LIBS),\
    -lssl $(CTL_LDLIBS) -lmicrohttpd,-pie))
ALL += $(O)/bin/gpupool-server

# The arbiter with what it reads and writes, for tests that run it without a supervisor.
ARBITER_SRCS := $(addprefix server/supervisor/srv_,arbiter.c desk.c kept.c ledger.c) \
    $(SRV_ARBITER_SRCS) server/base/wrk_desk.c

# What leaves something with the keeper, for tests of it.
KEEPER_SRCS := $(addprefix server/supervisor/srv_,keep_msg.c keeper.c kept.c)

# Users link -lzstd -llz4.
KERNEL_PARAMS_SRCS := $(addprefix server/kernel_params/kernel_params,.c _elf.c _image.c \
    _ptx.c) $(addprefix server/kernel_params/,image_variables.c image_variables_elf.c \
    image_variables_ptx.c image_sections.c image_words.c)
$(eval $(call static_lib,kernel_params,$(KERNEL_PARAMS_SRCS),server/kernel_params common))

WRK_BASE_SRCS := $(addprefix server/base/wrk_,desk.c request.c)
WRK_SANDBOX_SRCS := $(addprefix server/sandbox/wrk_,driver.c driver_refused.c filter.c landlock.c sandbox.c seal.c \
    thread_names.c)
WRK_LINK_SRCS := $(addprefix server/link/wrk_,cards.c end_reason.c handle.c link.c rdma.c reply.c \
    resume.c sender.c successor.c supervisor_channel.c tls.c transport.c wake.c watch.c)
WRK_OBJECTS_SRCS := $(addprefix server/objects/wrk_,call.c capture.c ctx.c ctx_end.c ctx_jobs.c elapsed.c \
    evpool.c export.c graph_end.c graph_nodes.c hostfn.c hostfn_due.c hostfn_graph.c left.c object.c opaque.c parts.c shm.c wait.c \
    waiters.c)
WRK_QUOTA_SRCS := $(addprefix server/quota/wrk_,graphmem.c physmem_quota.c quota.c release.c)
WRK_SCHEDULING_SRCS := $(addprefix server/scheduling/wrk_,copygate.c gov_charge.c gov_thread.c \
    gov_turn.c governor.c meter.c predict.c spatial.c)
WRK_TRANSFER_SRCS := $(addprefix server/transfer/wrk_,box.c changed_pages.c changes.c copy.c d2h_async.c d2h_reply.c digests.c \
    frame_buffers.c graph_hostmem.c h2d_fence.c path_inline.c path_registered_window.c path_ring.c \
    path_staging.c paths.c peer.c peer_copy.c shared_pinned.c staging.c staging_pool.c \
    transfer.c unified.c window.c)
WRK_MODULES_SRCS := $(addprefix server/modules/wrk_,image.c images.c jit.c kernels.c log_mute.c \
    output.c variables.c)
WRK_CALLS_SRCS := $(addprefix server/calls/h_,array.c attr.c card.c copy.c copy_rect.c ctx.c \
    export.c graph.c graph_copy.c graph_exec.c graph_hostmem.c graph_list.c graph_nodes.c graph_params.c green.c ipc.c \
    launch.c linker.c mem.c module.c notice.c pinned.c pool.c release.c runs.c stripes.c sync.c vmm.c)
WRK_ENTRY_SRCS := $(addprefix server/entry/wrk_,attach.c check.c control.c control_frame.c crash.c drv_shims.c features.c loop.c \
    main.c nvml.c probe.c)

# worker_layer FOLDER,SRCS: with the headers of the folder, of those before it and of BELOW
WRK_SRCS := $(WRK_BASE_SRCS)
WRK_BELOW := server/arbiter server/base server/kernel_params $(SERVER_BELOW)
define worker_layer
WRK_BELOW := server/$(1) $$(WRK_BELOW)
WRK_SRCS += $(2)
$$(eval $$(call compile_all,gpupool-worker,$(2),$$(WRK_BELOW)))
endef
$(eval $(call compile_all,gpupool-worker,$(WRK_BASE_SRCS),server/base $(SERVER_BELOW)))
$(eval $(call worker_layer,sandbox,$(WRK_SANDBOX_SRCS)))
$(eval $(call worker_layer,link,$(WRK_LINK_SRCS)))
$(eval $(call worker_layer,objects,$(WRK_OBJECTS_SRCS)))
$(eval $(call worker_layer,quota,$(WRK_QUOTA_SRCS)))
$(eval $(call worker_layer,scheduling,$(WRK_SCHEDULING_SRCS)))
$(eval $(call worker_layer,transfer,$(WRK_TRANSFER_SRCS)))
$(eval $(call worker_layer,modules,$(WRK_MODULES_SRCS)))
$(eval $(call worker_layer,calls,$(WRK_CALLS_SRCS) $(GEN_WRK_SRCS)))
$(eval $(call worker_layer,entry,$(WRK_ENTRY_SRCS)))
$(eval $(call compile_all,gpupool-worker,$(GEN_DRV_SRCS),proto common $(O)/gen))
WRK_SRCS := $(filter-out $(GEN_WRK_SRCS),$(WRK_SRCS))

# What a driver finds here before the C library's (wrk_thread_names.c).
WRK_EXPORTS := $(if $(SAN),,-Wl$(comma)--export-dynamic-symbol=fopen*)

$(eval $(call link_rule,$(O)/bin/gpupool-worker,gpupool-worker,$(WRK_SRCS) $(GEN_WRK_SRCS) \
    $(GEN_DRV_SRCS),wire ctl tlsfound transport kernel_params common,\
    $(CTL_LDLIBS) -lseccomp -lzstd -llz4 -ldl,-pie -static-libgcc $(WRK_EXPORTS)))
ALL += $(O)/bin/gpupool-worker

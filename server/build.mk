# SPDX-License-Identifier: Apache-2.0
# The pool server: supervisor, worker, null driver.
include proto/control.mk

SERVER_DIRS := $(addprefix server/,calls data layouts shares supervisor worker)
SERVER_INCS := $(SERVER_DIRS) common proto transport $(O)/gen

SRV_SRCS := \
    $(addprefix server/shares/gov_,card.c copy.c) \
    $(addprefix server/supervisor/srv_,arbiter.c ask.c attach.c books.c conf.c desk.c ending.c images.c inventory.c jail.c main.c \
        metrics.c peer.c pin.c register.c session.c share.c spawn.c worker.c) \
    server/worker/wrk_ask.c

$(eval $(call program,gpupool-server,$(SRV_SRCS),$(SERVER_INCS),,wire $(CTL_LIBS),\
    $(CTL_LDLIBS) -lmicrohttpd))

# The arbiter with what it reads and writes, for what runs it without a supervisor.
ARBITER_SRCS := $(addprefix server/supervisor/srv_,arbiter.c books.c desk.c) \
    $(addprefix server/shares/gov_,card.c copy.c) server/shares/wrk_desk.c

# Parameters of kernels, from images.  Users link -lzstd -llz4.
LAYOUT_SRCS := $(addprefix server/layouts/wrk_,layout.c layout_elf.c layout_image.c \
    layout_ptx.c)

# The worker: wrk_ its own workings, h_ the calls written by hand.
WRK_SRCS := \
    $(addprefix server/calls/h_,array.c attr.c card.c copy.c copy_rect.c ctx.c \
        graph.c graph_any.c graph_copy.c graph_exec.c green.c ipc.c launch.c link.c mem.c module.c notice.c pinned.c \
        pool.c release.c share.c stage.c sync.c vmm.c) \
    $(addprefix server/data/wrk_,box.c bulk.c bulk_down.c copy.c direct.c image.c images.c land.c \
        peer.c peer_copy.c pinned.c settle.c share.c slot.c stage.c unified.c window.c) \
    server/layouts/wrk_kernels.c $(LAYOUT_SRCS) \
    $(addprefix server/shares/wrk_,copygate.c desk.c gov_charge.c gov_thread.c gov_turn.c governor.c graphmem.c meter.c \
        piece.c predict.c quota.c spatial.c) \
    $(addprefix server/worker/wrk_,ask.c attach.c call.c capture.c cards.c ctx.c ctx_end.c driver.c drv_shims.c \
        evpool.c features.c filter.c handle.c host.c jit.c landlock.c lanes.c last.c link.c loop.c main.c \
        object.c output.c probe.c \
        release.c sandbox.c seal.c sender.c wait.c)

$(eval $(call program,gpupool-worker,$(WRK_SRCS) $(GEN_WRK_SRCS) $(GEN_DRV_SRCS),\
    $(SERVER_INCS),,wire ctl transport common,$(CTL_LDLIBS) -lseccomp -lzstd -llz4 -ldl))

# Everything succeeds at once: what is left is our own cost.  What it does not have it
# refuses, but for some old families (and drivers' logs) that it lacks altogether, as an
# older driver would: runtimes do not start when a name is absent that they may need.
NULL_REFUSED := $(O)/gen/null_refused.c
$(NULL_REFUSED): $(wildcard proto/api/*.api)
	$(call say,AWK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk '/^call 0x/ && $$3 ~ /^cu/ && $$3 !~ /^cu(TexRef|SurfRef|Logs)/ { \
	    print "int " $$3 "(void);"; \
	    print "__attribute__((weak)) int " $$3 "(void) { return 801; }" }' $^ >$@
NULL_SRCS := server/nulldrv/null_device.c server/nulldrv/null_ctx.c \
    server/nulldrv/null_mem.c server/nulldrv/null_code.c server/nulldrv/null_graph.c \
    server/nulldrv/null_more.c server/nulldrv/null_pool.c server/nulldrv/null_vmm.c \
    $(LAYOUT_SRCS) $(NULL_REFUSED)

$(eval $(call shared_lib,libnulldrv.so,$(NULL_SRCS),\
    server/nulldrv server/layouts common proto $(O)/gen,\
    -fvisibility=default,common,-lzstd -llz4 -Xlinker --version-script=server/nulldrv/null.map))

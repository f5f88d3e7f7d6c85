# SPDX-License-Identifier: Apache-2.0
# The pool server: supervisor, worker, null driver.
include proto/control.mk

SERVER_INCS := server common proto transport $(O)/gen

SRV_SRCS := server/srv_main.c server/srv_conf.c server/srv_attach.c server/srv_session.c \
    server/srv_worker.c server/srv_spawn.c server/srv_inventory.c server/srv_register.c \
    server/srv_metrics.c server/srv_images.c \
    server/srv_ask.c server/srv_peer.c server/wrk_ask.c server/gov_card.c

$(eval $(call program,gpupool-server,$(SRV_SRCS),$(SERVER_INCS),,wire $(CTL_LIBS),\
    $(CTL_LDLIBS) -lmicrohttpd))

# The worker: wrk_ its own workings, h_ the calls written by hand.
WRK_OWN_SRCS := $(addprefix server/wrk_,ask.c async.c attach.c bulk.c bulk_down.c call.c \
    cards.c charged.c copygate.c ctx.c direct.c driver.c evpool.c governor.c graphmem.c \
    handle.c host.c image.c images.c jit.c land.c lanes.c link.c loop.c main.c meter.c \
    output.c peer.c peer_copy.c predict.c probe.c quota.c release.c sandbox.c slot.c \
    spatial.c stage.c wait.c window.c)
WRK_CALL_SRCS := $(addprefix server/h_,array.c card.c copy.c copy_rect.c ctx.c graph.c \
    graph_any.c graph_exec.c green.c launch.c link.c mem.c module.c stage.c sync.c vmm.c)
WRK_SRCS := $(WRK_OWN_SRCS) $(WRK_CALL_SRCS) server/gov_copy.c server/gov_card.c

$(eval $(call program,gpupool-worker,$(WRK_SRCS) $(GEN_WRK_SRCS) $(GEN_DRV_SRCS),\
    $(SERVER_INCS),,wire ctl transport common,$(CTL_LDLIBS) -lseccomp -ldl))

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
    server/nulldrv/null_more.c server/nulldrv/null_pool.c $(NULL_REFUSED)

$(eval $(call shared_lib,libnulldrv.so,$(NULL_SRCS),server/nulldrv common proto $(O)/gen,\
    -fvisibility=default,common,-Xlinker --version-script=server/nulldrv/null.map))

# SPDX-License-Identifier: Apache-2.0
# The pool server: supervisor, worker, null driver.
include proto/control.mk

SERVER_INCS := server common proto transport $(O)/gen

SRV_SRCS := server/srv_main.c server/srv_conf.c server/srv_attach.c server/srv_session.c \
    server/srv_worker.c server/srv_spawn.c server/srv_inventory.c server/srv_register.c \
    server/srv_metrics.c $(O)/gen/attach.pb-c.c

$(eval $(call program,gpupool-server,$(SRV_SRCS),$(SERVER_INCS),,$(CTL_LIBS),\
    $(CTL_LDLIBS) -lmicrohttpd))

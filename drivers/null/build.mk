# SPDX-License-Identifier: Apache-2.0
# The null driver: every call succeeds at once, so what is measured with it is our own
# cost.  Calls that it does not have it refuses, except for some old families (and most
# log calls), which it lacks altogether as an older driver would: runtimes do not start
# when a name is absent that they may need.
NULL_REFUSED := $(O)/gen/null_refused.c
$(NULL_REFUSED): $(wildcard proto/api/*.api)
	$(call say,AWK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk '/^call 0x/ && $$3 ~ /^cu/ && $$3 !~ /^cu(TexRef|SurfRef|Logs)/ { \
	    print "int " $$3 "(void);"; \
	    print "__attribute__((weak)) int " $$3 "(void) { return 801; }" }' $^ >$@
NULL_SRCS := $(addprefix drivers/null/null_,box.c capture.c code.c ctx.c device.c graph.c \
    graph_calls.c graph_exec.c host.c hostfn.c live.c mem.c pointer.c pool.c runtime.c vmm.c) \
    $(NULL_REFUSED)

$(eval $(call shared_lib,libnulldrv.so,$(NULL_SRCS),\
    drivers/null server/kernel_params common proto $(O)/gen,\
    -fvisibility=default,kernel_params common,-lzstd -llz4 \
    -Xlinker --version-script=drivers/null/null.map))

# SPDX-License-Identifier: Apache-2.0
# The control plane's messages and tickets: $(O)/static/libctl.a.
#
# Whoever includes ctl headers or control.pb-c.h includes this file first, so
# that the generated header is among GEN_DEPS; the guard makes that free.
ifndef CONTROL_MK
CONTROL_MK := yes

CONTROL_GEN := $(O)/gen/control.pb-c.h
GEN_DEPS += $(CONTROL_GEN)

$(O)/gen/control.pb-c.h: proto/control.proto
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(O)/gen && rm -f $(O)/gen/control.pb-c.[ch]
	$(Q)protoc-c --proto_path=proto --c_out=$(O)/gen control.proto
$(O)/gen/control.pb-c.c: $(O)/gen/control.pb-c.h ;

CTL_SRCS := proto/ctl_call.c proto/ctl_link.c proto/ctl_dial.c proto/ticket.c proto/ticket_text.c proto/ticket_key.c \
    proto/ticket_keys.c proto/ctl_peek.c proto/ctl_proof.c proto/ctl_prove.c proto/ctl_json.c $(O)/gen/control.pb-c.c
CTL_INCS := common proto tls $(O)/gen
CTL_LIBS := ctl common
CTL_LDLIBS := -lprotobuf-c -lcrypto -ljansson

$(eval $(call static_lib,ctl,$(CTL_SRCS),$(CTL_INCS)))
endif

# SPDX-License-Identifier: Apache-2.0
# The Kubernetes side.  From below: configuration < HTTP < verbs and watches < objects;
# the scheduler uses these, gpupool-kube adds the controller and the webhook on top.
include proto/control.mk

KUBE_INCS := common pool-scheduler/kube
KUBE_SRCS := $(addprefix pool-scheduler/kube/kube_,config.c http.c api.c object.c watch.c)
KUBE_LDLIBS := -lcurl -ljansson

$(eval $(call static_lib,kube,$(KUBE_SRCS),$(KUBE_INCS)))

KUBE_TOP_INCS := common proto tls pool-scheduler/kube $(O)/gen
KUBE_TOP_SRCS := $(addprefix pool-scheduler/kube/,kube_ask.c kube_dra.c kube_dra_pod.c ctrl.c ctrl_queue.c ctrl_pool.c \
    ctrl_session.c ctrl_lease.c ctrl_event.c ctrl_quota.c ctrl_pod.c ctrl_claim.c ctrl_place.c ctrl_together.c ctrl_gpu.c \
    ctrl_cards.c ctrl_dra.c ctrl_legacy.c kube_inject.c kube_pins.c kube_cert.c kube_crowd.c kube_https.c \
    kube_review.c)
KUBE_TOP_LIBS := kubetop kube tls $(CTL_LIBS)
KUBE_TOP_LDLIBS := -lssl $(CTL_LDLIBS) $(KUBE_LDLIBS) -lmicrohttpd

# What kubelets say to node plug-ins.
GEN_DEPS += $(O)/gen/kubelet.pb-c.h
$(O)/gen/kubelet.pb-c.h: pool-scheduler/kube/kubelet.proto
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(O)/gen && rm -f $(O)/gen/kubelet.pb-c.[ch]
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(O)/gen kubelet.proto
$(O)/gen/kubelet.pb-c.c: $(O)/gen/kubelet.pb-c.h ;

$(eval $(call static_lib,kubetop,$(KUBE_TOP_SRCS),$(KUBE_TOP_INCS)))

$(eval $(call program,gpupool-kube,$(addprefix pool-scheduler/kube/,main.c main_controller.c main_webhook.c main_extender.c main_node.c kube_grpc.c) $(O)/gen/kubelet.pb-c.c,\
    $(KUBE_TOP_INCS),,$(KUBE_TOP_LIBS),$(KUBE_TOP_LDLIBS) -lnghttp2))

# In the image of the client libraries, where nothing else is: static.
ifeq ($(SAN),)
$(call compile_all,gpupool-copy,pool-scheduler/kube/kube_copy.c,common,)
$(O)/bin/gpupool-copy: $(call objs,gpupool-copy,pool-scheduler/kube/kube_copy.c)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -no-pie -o $@ $^
ALL += $(O)/bin/gpupool-copy
endif

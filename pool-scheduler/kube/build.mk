# SPDX-License-Identifier: Apache-2.0
# The Kubernetes side.  From below: configuration < HTTP < verbs and watches < objects;
# the scheduler uses these, gpupool-kube adds controllers and the webhook on top.
KUBE_INCS := common pool-scheduler/kube
KUBE_SRCS := $(addprefix pool-scheduler/kube/kube_,config.c http.c api.c object.c watch.c)
KUBE_LDLIBS := -lcurl -ljansson -lm

$(eval $(call static_lib,kube,$(KUBE_SRCS),$(KUBE_INCS)))

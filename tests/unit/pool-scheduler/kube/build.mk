# SPDX-License-Identifier: Apache-2.0
# The Kubernetes side, without a cluster.
UT_KUBE_INCS := $(KUBE_TOP_INCS) tests/unit

$(foreach t,test_kube_ask test_kube_review test_kube_watch test_kube_cert test_kube_https test_kube_dra test_ctrl_queue,\
    $(eval $(call unit_test,$(t),tests/unit/pool-scheduler/kube/$(t).c,$(UT_KUBE_INCS),,$(KUBE_TOP_LIBS),\
    $(KUBE_TOP_LDLIBS))))
$(eval $(call unit_test,test_kube_grpc,tests/unit/pool-scheduler/kube/test_kube_grpc.c pool-scheduler/kube/kube_grpc.c,\
    $(UT_KUBE_INCS),,$(KUBE_TOP_LIBS),$(KUBE_TOP_LDLIBS) -lnghttp2))
$(eval $(call unit_test,test_sched_kube,\
    tests/unit/pool-scheduler/kube/test_sched_kube.c tests/unit/pool-scheduler/ut_sched.c,\
    $(SCHED_INCS) tests/unit tests/unit/pool-scheduler,,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))

# SPDX-License-Identifier: Apache-2.0
# `make test-k8s`: pods on a real cluster of one machine.
$(eval $(call driver_program,tests/k8s/podprobe,tests/k8s/podprobe.c tests/programs/prog.c,,vecadd.ptx))

K8S_PACKAGES := etcd-server kubernetes-client containerd runc containernetworking-plugins \
    openssl curl zstd

$(eval $(call needs,test-k8s,$(K8S_PACKAGES)))
#:   make test-k8s              pods on a real Kubernetes of one machine (ONLY=pattern); needs
#:                              root and GPUPOOL_K8S_TOOLS, the folder of start-cluster
test-k8s-built: all test-programs
	@$(PYTHON) tests/k8s/run.py --build $(O) --only '$(ONLY)'

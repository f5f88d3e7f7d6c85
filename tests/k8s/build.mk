# SPDX-License-Identifier: Apache-2.0
# `make test-k8s`: pods on a real cluster of one machine.
$(eval $(call driver_program,tests/k8s/podprobe,tests/k8s/podprobe.c tests/programs/prog.c,,vecadd.ptx))

K8S_PACKAGES := etcd-server kubernetes-client containerd runc containernetworking-plugins \
    openssl curl zstd

.PHONY: test-k8s
#:   make test-k8s              pods on a real Kubernetes of one machine (ONLY=pattern); needs
#:                              root and GPUPOOL_K8S_TOOLS, the folder of start-cluster
test-k8s: all test-programs
	@if [ -n "$$GPUPOOL_K8S_TOOLS" ] && [ "$$(id -u)" = 0 ]; then for p in $(K8S_PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || \
	    { [ $$p = kubernetes-client ] && command -v kubectl >/dev/null; } || \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$p >/dev/null; done; fi
	@$(PYTHON) tests/k8s/run.py --build $(O) --only '$(ONLY)'

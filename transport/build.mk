# SPDX-License-Identifier: Apache-2.0
# Bytes between a client process and its worker.  Knows no CUDA, includes only common/.
TRANSPORT_SRCS := transport/xport.c transport/xport_conn.c transport/xport_spin.c transport/xport_stream.c \
    transport/xport_tcp.c transport/xport_liveness.c transport/xport_block.c transport/xport_zstd.c transport/xport_ring.c transport/xport_shm.c \
    transport/xport_verbs.c transport/xport_guard.c transport/xport_rdma_port.c \
    transport/xport_rdma_cm.c transport/xport_rdma_conn.c transport/xport_rdma_qp.c \
    transport/xport_rdma_io.c transport/xport_rdma_eager.c transport/xport_rdma_bulk.c transport/xport_rdma_mr.c

TRANSPORT_SRCS += transport/xport_stripes.c transport/xport_wakefd.c transport/xport_journal.c transport/xport_resume.c \
    transport/xport_resume_send.c transport/xport_resume_rdma.c transport/xport_resume_stripes.c transport/xport_acks.c

$(eval $(call static_lib,transport,$(TRANSPORT_SRCS),transport common))

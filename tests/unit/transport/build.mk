# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_xport_rdma,\
    tests/unit/transport/test_xport_rdma.c,transport common tests/unit,,transport common,))
$(eval $(call unit_test,test_xport_stripes,\
    tests/unit/transport/test_xport_stripes.c,transport common tests/unit,,transport common,))
$(eval $(call unit_test,test_xport_eager,\
    tests/unit/transport/test_xport_eager.c,transport common tests/unit,,transport common,))
$(eval $(call unit_test,test_xport,\
    tests/unit/transport/test_xport.c,transport tls common tests/unit,,transport tls common,-lssl -lcrypto))
$(eval $(call unit_test,test_xport_ring,\
    tests/unit/transport/test_xport_ring.c,transport common tests/unit,,transport common,))
$(eval $(call unit_test,test_xport_block,\
    tests/unit/transport/test_xport_block.c,transport common tests/unit,,transport common,-ldl))
$(eval $(call unit_test,test_xport_journal,\
    tests/unit/transport/test_xport_journal.c,transport common tests/unit,,transport common,))
$(eval $(call unit_test,test_xport_resume,\
    tests/unit/transport/test_xport_resume.c,transport common tests/unit,,transport common,-ldl))
$(eval $(call unit_test,test_xport_tcp,\
    tests/unit/transport/test_xport_tcp.c,transport common tests/unit,,transport common,-ldl))
$(eval $(call unit_test,test_xport_resume_rdma,\
    tests/unit/transport/test_xport_resume_rdma.c,transport common tests/unit,,transport common,-ldl))
$(eval $(call unit_test,test_xport_spin,\
    tests/unit/transport/test_xport_spin.c,transport common tests/unit,,transport common,))

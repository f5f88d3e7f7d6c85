# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_gp_text,tests/unit/common/test_gp_text.c,common tests/unit,,common,))
$(eval $(call unit_test,test_gp_msg,tests/unit/common/test_gp_msg.c,common tests/unit,,common,))
$(eval $(call unit_test,test_gp_loop,tests/unit/common/test_gp_loop.c,common tests/unit,,common,))
$(eval $(call unit_test,test_gp_listener,tests/unit/common/test_gp_listener.c,common tests/unit,,common,))
$(eval $(call unit_test,test_gp_tree,tests/unit/common/test_gp_tree.c,common tests/unit,,common,))
$(eval $(call unit_test,test_gp_blake3,tests/unit/common/test_gp_blake3.c,common tests/unit,,common,))
$(eval $(call unit_test,test_gp_x25519,tests/unit/common/test_gp_x25519.c,common tests/unit,,common,-lcrypto))
$(eval $(call unit_test,test_gp_size,tests/unit/common/test_gp_size.c,common tests/unit,,common,))

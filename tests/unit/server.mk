# SPDX-License-Identifier: Apache-2.0
# The pool server's parts that can be tried alone.
$(eval $(call unit_test,test_wrk_handle,tests/unit/test_wrk_handle.c server/wrk_handle.c,\
    server common proto tests/unit,,common,))
$(eval $(call unit_test,test_wrk_quota,tests/unit/test_wrk_quota.c server/wrk_quota.c,\
    server common proto tests/unit,,common,))
$(eval $(call unit_test,test_srv_conf,tests/unit/test_srv_conf.c server/srv_conf.c,\
    server common tests/unit,,common,))
$(eval $(call unit_test,test_srv_images,tests/unit/test_srv_images.c server/srv_images.c,\
    server common proto tests/unit,,wire common,-lprotobuf-c))
$(eval $(call unit_test,test_wrk_image,tests/unit/test_wrk_image.c server/wrk_image.c \
    server/wrk_images.c server/wrk_ask.c,server common proto tests/unit,,wire common,\
    -lprotobuf-c))
$(eval $(call unit_test,test_wrk_window,tests/unit/test_wrk_window.c server/wrk_window.c,\
    $(SERVER_INCS) tests/unit,,common,))

# SPDX-License-Identifier: Apache-2.0
# The client stub's parts, without a server.  Linked whole, because generated bodies are
# weak and a hand-written one must win.
UT_STUB_INCS := $(STUB_DIRS) common proto tls transport tests/unit tests/unit/transport $(O)/gen
UT_STUB_LINK := -Wl,--whole-archive $(O)/static/libcudastub.a -Wl,--no-whole-archive \
    -Wl,--start-group $(call static_path,wire ctl tlsfound transport common) -Wl,--end-group -lprotobuf-c

UT_STUB_TESTS := test_stub_handle test_stub_range test_stub_ctx_storage test_stub_tables \
    test_stub_proc_address test_stub_session test_stub_ctx test_stub_paths test_stub_call test_stub_flush test_stub_launch \
    test_stub_received test_stub_pieces test_stub_resume test_stub_spare test_stub_written test_stub_unified
$(UT_STUB_TESTS:%=$(O)/tests/unit/%): $(O)/static/libcudastub.a \
    $(call static_path,wire ctl tlsfound transport common)
$(foreach t,$(UT_STUB_TESTS),\
    $(eval $(call unit_test,$(t),tests/unit/client-stub/$(t).c,$(UT_STUB_INCS),,,$$(UT_STUB_LINK))))

ifneq ($(VALIDITY),no)
$(O)/tests/unit/test_stub_validity: $(O)/static/libcudastub.a \
    $(call static_path,wire ctl tlsfound transport common)
$(eval $(call unit_test,test_stub_validity,tests/unit/client-stub/test_stub_validity.c,\
    $(UT_STUB_INCS),,,$$(UT_STUB_LINK)))
endif

# The one file that VALIDITY=no changes, in front of the others of an ordinary build.
$(eval $(call unit_test,test_stub_no_validity,\
    tests/unit/client-stub/test_stub_no_validity.c client-stub/export_tables/stub_table.c,$(UT_STUB_INCS),\
    -DSTUB_NO_VALIDITY,cudastub wire ctl tlsfound transport common,-lprotobuf-c))

# With the insides of one file, which stands in front of the others.
$(foreach t,test_stub_wait test_stub_hostfn test_stub_control,\
    $(eval $(call unit_test,$(t),tests/unit/client-stub/$(t).c,$(UT_STUB_INCS),,\
    cudastub wire ctl tlsfound transport common,-lprotobuf-c)))

# One file of libnvidia-ml.so.1, with cards that the test pretends.
$(eval $(call unit_test,test_nvml_events,tests/unit/client-stub/test_nvml_events.c,\
    client-stub/nvml client-stub/export_tables $(UT_STUB_INCS)))

# What features do around calls, with a feature of the test's.
$(eval $(call unit_test,test_stub_hooks,tests/unit/client-stub/test_stub_hooks.c \
    client-stub/link/stub_hooks.c common/gp_copy.c,$(UT_STUB_INCS)))

# The places of frames, with a feature of the test's in front of the others.
$(eval $(call unit_test,test_stub_placed,tests/unit/client-stub/test_stub_placed.c,$(UT_STUB_INCS),,\
    cudastub wire ctl tlsfound transport common,-lprotobuf-c))

# SPDX-License-Identifier: Apache-2.0
# Many sessions: docs/reliability.md, tests/e2e/test_soak.py.
$(eval $(call helper_program,tests/soak/sessions,tests/soak/sessions.c,$(CTL_INCS),,wire tls $(CTL_LIBS),-lssl $(CTL_LDLIBS)))
TEST_PROGRAMS += $(O)/tests/soak/sessions

#:   make test-soak            SESSIONS=N sessions in a row (100000); a million is the aim
$(eval $(call needs,test-soak))
SESSIONS ?= 100000
test-soak-built: all test-programs
	@SESSIONS='$(SESSIONS)' $(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --e2e \
	    --slowness $$(( $(SESSIONS) / 5000 + 1 )) --only 'soak*'
	@cat $(O)/test-logs/soak.*.log

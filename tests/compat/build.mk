# SPDX-License-Identifier: Apache-2.0
$(eval $(call needs,test-compat,git))
# The released version that this one must work with: a commit, a branch or a tag.
PREVIOUS ?= b42a106
#:   make test-compat           clients and servers of this version with those of an older
#:                              one, both ways round (PREVIOUS=commit, ONLY=pattern)
test-compat-built: all test-programs
	@tests/compat/run.sh $(O) '$(PREVIOUS)' '$(ONLY)'

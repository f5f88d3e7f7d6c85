# SPDX-License-Identifier: Apache-2.0
# The pictures of the README.

$(eval $(call needs,pictures))
#:   make pictures              docs/pictures/terminal*.svg, from a pool that runs
pictures-built: all test-programs
	@docs/pictures/terminal.py --build $(O) --into docs/pictures

# Kept in the repository, so that a build for another machine, which cannot run its own
# programs, has them; tests/e2e/test_cli.py compares.
$(eval $(call needs,man))
#:   make man                   docs/man/*.[1-8], from *.in and the options of the programs
man-built: all
	@docs/man/pages.py --build $(O)

# SPDX-License-Identifier: Apache-2.0
# The pictures of the README.

$(eval $(call needs,pictures))
#:   make pictures              docs/pictures/terminal*.svg, from a pool that runs
pictures-built: all test-programs
	@docs/pictures/terminal.py --build $(O) --into docs/pictures

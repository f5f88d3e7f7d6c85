# SPDX-License-Identifier: Apache-2.0
"""Generator of everything that follows from proto/api: see __main__.py."""

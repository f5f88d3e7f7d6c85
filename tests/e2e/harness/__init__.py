# SPDX-License-Identifier: Apache-2.0
"""What end-to-end tests are made of; see tests/e2e/README.md."""

from .case import Case, Failed, Skipped
from .pool import Pool
from .proc import Result

__all__ = ["Case", "Failed", "Pool", "Result", "Skipped"]

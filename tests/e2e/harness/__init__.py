# SPDX-License-Identifier: Apache-2.0
"""What end-to-end tests are made of; see tests/e2e/README.md."""

from . import cudash
from .case import Case, Failed, Skipped
from .cudash import Cudash
from .pool import Pool, Session
from .proc import Result

__all__ = ["Case", "Cudash", "Failed", "Pool", "Result", "Session", "Skipped", "cudash"]

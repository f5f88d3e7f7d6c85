# SPDX-License-Identifier: Apache-2.0
"""What end-to-end tests are made of; see tests/e2e/README.md."""

from . import cudash
from .case import Case, Failed, Skipped
from .cudash import Cudash
from .host import Host
from .pool import Pool, Session
from .proc import Result

__all__ = ["Case", "Cudash", "Failed", "Host", "Pool", "Result", "Session", "Skipped", "cudash"]

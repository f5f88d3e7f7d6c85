# SPDX-License-Identifier: Apache-2.0
"""Runs unittest modules and prints one line for each test; run in the suite's Python.

    unittest_lines.py MODULE...        ->  @ OUTCOME <tab> TEST <tab> WHY
"""

import sys
import traceback
import unittest
import warnings


class Lines(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.bad = None

    def startTest(self, test):
        super().startTest(test)
        self.bad = None

    def say(self, outcome, test, why=""):
        words = " ".join(str(why).split())[:300]
        print(f"\n@{outcome}\t{test.id()}\t{words}", flush=True)

    def note(self, err):
        self.bad = self.bad or f"{err[0].__name__}: {err[1]}"
        traceback.print_exception(*err)

    def addError(self, test, err):
        self.note(err)
        if not hasattr(test, "_testMethodName"):  # a module or class that did not load
            self.say("FAIL", test, self.bad)

    def addFailure(self, test, err):
        self.note(err)

    def addSubTest(self, test, subtest, err):
        if err:
            self.note(err)

    def addSkip(self, test, reason):
        self.bad = self.bad or ""
        self.say("NA", test, f"skips itself: {reason}")

    def addExpectedFailure(self, test, err):
        self.bad = ""
        self.say("PASS", test)

    def addUnexpectedSuccess(self, test):
        self.note((AssertionError, "succeeds, which was not expected"))

    def stopTest(self, test):
        if self.bad is None:
            self.say("PASS", test)
        elif self.bad:
            self.say("FAIL", test, self.bad)
        super().stopTest(test)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(Lines())

"""Real processes on real servers, each killed, stopped and starved at its worst moments: run by
tools/run-faults, and no part of the default suite, which has to be quick.
"""
import os
import unittest

CHOSEN = 'BLOCKATTACH_FAULTS_TESTS'


def load_tests(loader, _tests, pattern):
    """To be found where they were asked for only (unittest's protocol for packages)."""
    if not os.environ.get(CHOSEN):
        return unittest.TestSuite()
    return loader.discover(os.path.dirname(__file__), pattern)

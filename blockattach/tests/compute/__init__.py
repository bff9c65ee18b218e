"""Kinds of hosts with real programs and devices: run where BLOCKATTACH_COMPUTE_TESTS is set, and no
part of the default suite.
"""
import os
import unittest

CHOSEN = 'BLOCKATTACH_COMPUTE_TESTS'


def load_tests(loader, _tests, pattern):
    """To be found where they were asked for only (unittest's protocol for packages)."""
    if not os.environ.get(CHOSEN):
        return unittest.TestSuite()
    return loader.discover(os.path.dirname(__file__), pattern)

"""What needs a kernel of its own: run by tools/run-lab, and no part of the default suite."""
import os
import unittest

from blockattach.tests.lab.machines import guest


def load_tests(loader, _tests, pattern):
    """To be found inside the lab only (unittest's protocol for packages)."""
    if not guest.is_enclosed():
        return unittest.TestSuite()
    return loader.discover(os.path.dirname(__file__), pattern)

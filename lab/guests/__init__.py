"""Tests of LVM, LIO and open-iscsi in guests with kernels of their own. Run by `tools/run-lab`."""
import os
import unittest

from lab.guests.machines import guest


def load_tests(loader, _tests, pattern):
    """Load the tests only inside `lab/guests/enclose` (unittest's protocol for packages)."""
    if not guest.is_enclosed():
        return unittest.TestSuite()
    return loader.discover(os.path.dirname(__file__), pattern)

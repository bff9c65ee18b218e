"""Tests of blockattach, by layer."""
import faulthandler
import logging
import os

# Without a handler, Python writes warnings to standard error, between the results of other tests.
# A test that asks what was logged has a handler of its own (assertLogs).
logging.getLogger().addHandler(logging.NullHandler())

# tools/gate/judge.py and tools/explore set it: a worker that hangs ends, and prints where each of
# its threads is.
if 'BLOCKATTACH_TEST_LIMIT' in os.environ:
    faulthandler.dump_traceback_later(int(os.environ['BLOCKATTACH_TEST_LIMIT']), exit=True)

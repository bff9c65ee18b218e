"""Tests of blockattach, by layer."""
import logging

# Without a handler, Python writes warnings to standard error, between the results of other tests.
# A test that asks what was logged has a handler of its own (assertLogs).
logging.getLogger().addHandler(logging.NullHandler())

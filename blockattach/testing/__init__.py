"""Test support for consumers and authors of drivers.

See ``doc/source/contributor/testing_with_blockattach.rst``.
"""

"""Conformance tests of the drivers of this package."""

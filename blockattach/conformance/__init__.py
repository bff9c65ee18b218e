"""Conformance kits: base classes for unittest tests that prove the contracts of a driver."""

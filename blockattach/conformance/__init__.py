"""Conformance kits: unittest classes that drivers subclass to prove their contracts."""

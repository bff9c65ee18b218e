"""Demonstrations of the service. Run by `tools/quickstart`."""

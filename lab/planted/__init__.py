"""Bugs planted in copies of the package, to see that something notices each."""

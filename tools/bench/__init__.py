"""The parts of `tools/benchmark`: what is measured, with what load, how it is counted and shown.

The package is imported first: it chooses native threads before any library can choose otherwise.
"""
import blockattach

__all__ = ('blockattach',)

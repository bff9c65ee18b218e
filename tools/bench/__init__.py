"""Parts of `tools/benchmark`: scenarios, load, measurement, and reports.

This package must be imported before other libraries, because the import of blockattach selects
native threads.
"""
import blockattach

__all__ = ('blockattach',)

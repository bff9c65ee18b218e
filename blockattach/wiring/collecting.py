"""Settings of Python's garbage collector, for a process that serves."""
import gc

ALLOCATIONS = 25_000
"""So many new objects, less those that were freed, until a collection. A list of a thousand
volumes has about half as many, none of them garbage before it is sent; with Python's default of
700 there would be a dozen collections meanwhile."""


def settle(forked: bool = False) -> None:
    """Freeze all existing objects: they are not collected any more.

    While a process loads there is hardly any garbage, and collecting takes a fifth of the time, so
    its start may have disabled the collector.

    :param forked: memory is shared with other processes until it is written to, and a collection
        writes to each object
    """
    if not forked:
        gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
    gc.enable()

"""How Python looks for garbage that refers to itself, in a process that serves."""
import gc

ALLOCATIONS = 25_000
"""So many new objects, less those that have gone, until it looks at the new ones. A list of a
thousand volumes is made of about half as many, none of them garbage before it is sent; with
Python's own 700 they would be looked at a dozen times meanwhile."""


def settle(forked: bool = False) -> None:
    """What has been made until now stays for good: Python looks at it no more.

    While a process loads there is hardly any garbage, and looking for it takes a fifth of the
    time, so who starts one may have turned it off.

    :param forked: memory may be shared with others as long as nobody writes to it; to look at an
        object for garbage is to write to it
    """
    if not forked:
        gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
    gc.enable()

"""Named points in the code where a test may make something fail. Off: one dictionary look-up.

A point's name is ``<package>.<module>.<moment>``, for instance
``volume.attachments.after_grant``. The service never sets one; a test arms a point with an action
(raise, delay, stop the process) and disarms it afterwards.
"""
from collections.abc import Callable

_armed: dict[str, Callable[[], None]] = {}


def point(name: str) -> None:
    """Run the action armed at this point, if there is one."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            action()


def arm(name: str, action: Callable[[], None]) -> None:
    """Let ``action`` run whenever the point is passed."""
    _armed[name] = action


def disarm(name: str) -> None:
    """Make the point pass silently again."""
    _armed.pop(name, None)

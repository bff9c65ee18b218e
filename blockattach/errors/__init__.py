"""Every error of the service, as one tree; it is drawn in the modules it stands in.

Each class has a stable ``code`` for logs and programs and a text for people. ``final`` says
whether a failure proves that nothing happened; only then may it be answered as one at once.
``retry_after`` says that it passes: the request may be repeated.
"""
from blockattach.errors.base import *  # noqa: F403
from blockattach.errors.resources import *  # noqa: F403
from blockattach.errors.servers import *  # noqa: F403

MODULES = (BlockattachError.__module__, VolumeNotFound.__module__,  # noqa: F405
           ServerNotFound.__module__)  # noqa: F405
"""Where the classes stand, which is a part of their names on the bus."""

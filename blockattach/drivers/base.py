"""Interfaces of a backend under their public name, see `blockattach.storage.drivers.base`."""
from blockattach.storage.drivers.base import *  # noqa: F403

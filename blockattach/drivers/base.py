"""The contract of a backend, under its public name; see `blockattach.storage.drivers.base`."""
from blockattach.storage.drivers.base import *  # noqa: F403

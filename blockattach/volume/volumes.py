"""What everything that acts on one backend shares."""
from typing import NamedTuple

from blockattach.volume import backends
from blockattach.volume import lease


class VolumeManager(NamedTuple):
    """One backend and its leases; ``host`` is its ``host@backend``."""

    backend: backends.KeptBackend
    host: str
    leases: lease.Leases

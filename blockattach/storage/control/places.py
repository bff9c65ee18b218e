"""Lookup of backends and pools by the names that clients use."""
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import pools


class Place(NamedTuple):
    """Backend or pool that a request names.

    :ivar kind: ``Host`` or ``Cluster``
    :ivar name: ``host@backend`` or ``cluster@backend``, optionally followed by ``#pool``
    """

    kind: str
    name: str


def pool(database: storage_db.Database, place: Place, down_after: float) -> pools.Pool:
    """Return the pool that a request names, or the first pool of the backend if it names no pool.

    :param down_after: seconds without a heartbeat after which a service counts as down
    :raises InvalidInput: the pool does not exist, or its backend is not available
    """
    host, (_, _, wanted) = backend(database, place, down_after), place.name.partition('#')
    for found in stored_pools.list_all(database, down_after):
        if found.host == host and wanted in ('', found.name.partition('#')[2]):
            return found
    raise _not_found(place)


def backend(database: storage_db.Database, place: Place, down_after: float) -> str:
    """Return the name of the backend that a request names, if it is available.

    A backend is available if one of its volume services is up and enabled.

    :param down_after: seconds without a heartbeat after which a service counts as down
    :returns: ``host@backend`` or ``cluster@backend``
    :raises InvalidInput: the backend does not exist, or is not available
    """
    name = place.name.partition('#')[0]
    keeping = services.keeping(database, binaries.VOLUME, name, down_after)
    if not keeping and place.kind == 'Host':
        # The name of a member of a cluster also names the backend of the cluster.
        try:
            keeping = [services.get_by_host(database, binaries.VOLUME, name, down_after)]
        except errors.ServiceNotFound:
            raise _not_found(place) from None
    if not keeping:
        raise _not_found(place)
    if not any(one.up and not one.disabled for one in keeping):
        raise errors.InvalidInput('Service is unavailable at this time.')
    return keeping[0].backend


def _not_found(place: Place) -> errors.InvalidInput:
    return errors.InvalidInput(f"{place.kind} '{errors.shortened(place.name)}' not found")

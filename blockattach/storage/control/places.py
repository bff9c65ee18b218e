"""Backends and pools by what clients name."""
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools as stored_pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import pools


class Place(NamedTuple):
    """A backend by what a client names: ``host@backend`` or ``cluster@backend``, with or without
    ``#pool``.
    """

    kind: str
    name: str


def pool(database: storage_db.Database, place: Place, down_after: float) -> pools.Pool:
    """The pool that is named, or the first one of the backend.

    :param down_after: seconds without a heartbeat after which a service counts as down
    :raises InvalidInput: there is none, or its backend cannot be used now
    """
    host, (_, _, wanted) = backend(database, place, down_after), place.name.partition('#')
    for found in stored_pools.list_all(database, down_after):
        if found.host == host and wanted in ('', found.name.partition('#')[2]):
            return found
    raise _not_found(place)


def backend(database: storage_db.Database, place: Place, down_after: float) -> str:
    """The name of a backend whose manager is up and in use.

    :raises InvalidInput: there is none
    """
    name = place.name.partition('#')[0]
    keeping = services.keeping(database, binaries.VOLUME, name, down_after)
    if not keeping and place.kind == 'Host':
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

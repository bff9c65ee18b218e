"""Lists of the volumes and snapshots on a backend that can be managed."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform import context
from blockattach.storage.control import places
from blockattach.storage.control import volume_parts
from blockattach.storage.db.volumes import stored_names
from blockattach.storage.domain import managing


class ManageLists:
    """Lists of manageable resources, for an authorized caller."""

    def __init__(self, parts: volume_parts.VolumeParts, down_after: float) -> None:
        """Create the lists.

        :param down_after: seconds without a heartbeat after which a service counts as down
        """
        self._parts = parts
        self._down_after = down_after

    def stored(self, caller: context.RequestContext, place: places.Place,
               noun: str) -> tuple[list[managing.Stored], Mapping[str, str]]:
        """Return the resources on a backend, and the IDs of the managed ones by name.

        :param noun: ``volume`` or ``snapshot``
        :raises InvalidInput: the backend does not exist, or is not available
        """
        backend = places.backend(self._parts.database, place, self._down_after)
        found = self._parts.volume_services.on(backend).list_manageable(caller, noun)
        stored = [managing.Stored(**_fields(one)) for one in found]
        by_name = managing.ids((one.name for one in stored), noun)
        living = stored_names.live_ids(self._parts.database, by_name.values(), noun)
        return stored, {name: one for name, one in by_name.items() if one in living}


def _fields(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item.get(name) for name in ('name', 'size_bytes', 'origin', 'in_use')}

"""What lies on a backend is listed: by its manager, with what is known of it here."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform import context
from blockattach.storage.control import places
from blockattach.storage.control import volume_parts
from blockattach.storage.db.volumes import stored_names
from blockattach.storage.domain import managing


class ManageLists:
    """The caller has been checked already."""

    def __init__(self, parts: volume_parts.VolumeParts, down_after: float) -> None:
        """
        :param down_after: seconds without a heartbeat after which a service counts as down
        """
        self._parts = parts
        self._down_after = down_after

    def stored(self, caller: context.RequestContext, place: places.Place,
               noun: str) -> tuple[list[managing.Stored], Mapping[str, str]]:
        """What lies on a backend that could be managed; and which of it is, with the ids.

        :param noun: ``volume`` or ``snapshot``
        :raises InvalidInput: there is no such backend, or it cannot be used now
        """
        backend = places.backend(self._parts.database, place, self._down_after)
        found = self._parts.volume_services.on(backend).list_manageable(caller, noun)
        stored = [managing.Stored(**_fields(one)) for one in found]
        by_name = managing.ids((one.name for one in stored), noun)
        living = stored_names.live_ids(self._parts.database, by_name.values(), noun)
        return stored, {name: one for name, one in by_name.items() if one in living}


def _fields(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.get(name) for name in ('name', 'size_bytes', 'origin', 'in_use')}

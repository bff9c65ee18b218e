"""Records as rows, and rows as records."""
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.storage.domain import connection


def row(record: Any) -> dict[str, Any]:
    """A record as a row."""
    return {name: getattr(record, name) for name in record.__slots__}


def values(row: sa.Row[Any]) -> dict[str, Any]:
    """Its columns by name."""
    return dict(row._mapping)


def server_of(row: sa.Row[Any]) -> records.Server:
    """A server."""
    return records.Server(**{**values(row), 'vm_state': lifecycle.VmState(row.vm_state)})


def device_of(row: sa.Row[Any]) -> records.BlockDevice:
    """A volume of a server."""
    return records.BlockDevice(**{**values(row), 'mode': connection.AccessMode(row.mode)})


def act_of(row: sa.Row[Any], lease: str, generation: int) -> records.Act:
    """An act, by these leases on it and on its server."""
    arguments: Mapping[str, Any] = json.loads(row.arguments)
    return records.Act(row.id, row.server_id, row.verb, arguments, json.loads(row.caller),
                       row.finishing, lease, generation)

"""Conversion between records and database rows."""
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.storage.domain import connection


def row(record: Any) -> dict[str, Any]:
    """Return the column values of a record."""
    return {name: getattr(record, name) for name in record.__slots__}


def values(row: sa.Row[Any]) -> dict[str, Any]:
    """Return the values of a row by column name."""
    return dict(row._mapping)


def server_of(row: sa.Row[Any]) -> records.Server:
    """Return the server of a row."""
    return records.Server(**{**values(row), 'vm_state': lifecycle.VmState(row.vm_state)})


def device_of(row: sa.Row[Any]) -> records.BlockDevice:
    """Return the block device of a row."""
    return records.BlockDevice(**{**values(row), 'mode': connection.AccessMode(row.mode)})


def act_of(row: sa.Row[Any], lease: str, generation: int) -> records.Act:
    """Return the act of a row, with the lease on the act and the generation of its server."""
    arguments: Mapping[str, Any] = json.loads(row.arguments)
    return records.Act(row.id, row.server_id, row.verb, arguments, json.loads(row.caller),
                       row.finishing, lease, generation)

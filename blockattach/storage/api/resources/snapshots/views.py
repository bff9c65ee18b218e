"""Request and response schemas of snapshots by microversion, and views of snapshots."""
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import BASE
from blockattach.platform.http.operation import V
from blockattach.storage.api import answers
from blockattach.storage.api import metadata
from blockattach.storage.api import services as api_services
from blockattach.storage.domain import snapshots
from blockattach.storage.policy import snapshots as policies

_TEXT: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_NAMES = {'name': _TEXT, 'display_name': _TEXT, 'description': _TEXT}

CREATE = {BASE: schema.wrapped('snapshot', schema.obj(
    {**_NAMES, 'volume_id': schema.NULLABLE_UUID, 'force': answers.YES_OR_NO,
     'metadata': schema.nullable(metadata.PAIRS)}, required=['volume_id']))}
UPDATE = {BASE: schema.wrapped('snapshot', schema.obj(
    {**_NAMES, 'display_description': _TEXT}))}
RESET_STATUS = schema.obj({'status': {'type': 'string', 'maxLength': 255}}, required=['status'])
UPDATE_STATUS = schema.obj({
    'status': {'type': 'string', 'maxLength': 255},
    'progress': {'type': ['string', 'null'], 'pattern': r'^(100|[0-9]{1,2})%$'},
}, required=['status'])
REVERT = schema.obj({'snapshot_id': {'type': ['string', 'null'], 'maxLength': 255}},
                    additional=True)

_MADE = schema.View({
    'id': schema.UUID,
    'name': answers.NULLABLE_TEXT,
    'description': answers.NULLABLE_TEXT,
    'volume_id': schema.UUID,
    'status': answers.TEXT,
    'size': (answers.INTEGER, 'size_gb'),
    'metadata': answers.TEXTS_BY_KEY,
    'created_at': answers.TIME,
    'updated_at': answers.NULLABLE_TIME,
})
_EXTENDED = schema.View({
    'os-extended-snapshot-attributes:project_id': (answers.TEXT, 'project_id'),
    'os-extended-snapshot-attributes:progress': (
        {'type': 'string', 'pattern': '^[0-9]{1,3}%$'},
        lambda snapshot: f'{snapshot.progress}%'),
})
"""Response keys of a snapshot with details, for callers who may see them."""


class Added(NamedTuple):
    """Response keys of a snapshot that a microversion added."""

    since: V
    view: schema.View


ADDED = (
    Added(V(3, 14), schema.View({'group_snapshot_id': answers.NULL})),
    Added(V(3, 41), schema.View({'user_id': answers.TEXT})),
    Added(V(3, 65), schema.View({'consumes_quota': (answers.BOOLEAN, lambda snapshot: True)})),
)


def _by_version(around: Callable[[schema.Schema], schema.Schema],
                more: Mapping[str, schema.Schema] | None = None) -> dict[V, schema.Schema]:
    """Return the response schemas by the microversions that added keys to a snapshot.

    :param around: function that returns the schema of the response for the schema of a snapshot
    :param more: schemas of further keys, which not all callers see
    """
    one: schema.Schema = schema.extend(_MADE.whole, more or {})
    found = {BASE: around(one)}
    for since, view in ADDED:
        one = schema.extend(one, view.keys, required=view.keys)
        found[since] = around(one)
    return found


def _one(item: schema.Schema) -> schema.Schema:
    return schema.wrapped('snapshot', item)


def _list(item: schema.Schema) -> schema.Schema:
    return schema.obj({
        'snapshots': schema.array(item),
        'snapshots_links': answers.NEXT_LINK,
        'count': answers.INTEGER,
    }, required=['snapshots'])


MADE = _by_version(_one)
SHOWN = _by_version(_one, _EXTENDED.keys)
NAMES = _by_version(_list)
DETAILS = _by_version(_list, _EXTENDED.keys)


def made(call: operation.Call, snapshot: snapshots.Snapshot) -> dict[str, Any]:
    """Return a snapshot in the form of a create or update response."""
    shown = _MADE.show(snapshot)
    for since, view in ADDED:
        if call.version >= since:
            shown |= view.show(snapshot)
    return shown


def names(services: api_services.ApiServices, call: operation.Call,
          rows: Sequence[snapshots.Snapshot]) -> list[dict[str, Any]]:
    """Return snapshots as a list without details."""
    return [made(call, snapshot) for snapshot in rows]


def details(services: api_services.ApiServices, call: operation.Call,
            rows: Sequence[snapshots.Snapshot]) -> list[dict[str, Any]]:
    """Return snapshots with the details that the caller may see."""
    allowed = {owner: services.policy.allowed(call.context, policies.EXTENDED_ATTRIBUTES, owner)
               for owner in {snapshot.project_id for snapshot in rows}}
    return [made(call, snapshot) | (
        _EXTENDED.show(snapshot) if allowed[snapshot.project_id] else {})
        for snapshot in rows]

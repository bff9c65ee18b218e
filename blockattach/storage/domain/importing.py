"""Import rules for a Cinder database: conversion of attachments, and the remarks of the report.

`REFUSED` contains the reasons to refuse a row. `CHANGED` contains the changes made to a row, and
`LEFT` the data that is not imported.
"""
import dataclasses
import functools
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import cinder_rows
from blockattach.storage.domain import connection
from blockattach.storage.domain import volume_lifecycle

_Own = volume_lifecycle.OwnStatus
_State = attachment_lifecycle.State


class Remark(NamedTuple):
    """Explanation of why an item is refused, changed or not imported.

    :ivar noun: kind of the item
    :ivar remedy: action for the operator; empty if none is needed
    """

    noun: str
    text: str
    remedy: str = ''


NOT_WRITTEN = 'not_written'
"""Key of `REFUSED` for a volume that the database rejected on writing."""
REFUSED: Mapping[str, Remark] = {
    'damaged': Remark(
        'row', 'the row has an invalid value. The report names the column and the reason',
        'Repair or delete the row in Cinder.'),
    'twice': Remark(
        'row', 'another live row has the same unique values, and only one can be imported',
        'Delete or rename one of the rows in Cinder.'),
    'id_taken': Remark(
        'row', 'the id exists in this database and belongs to another volume',
        'Determine which of the two rows is valid, and delete the other.'),
    NOT_WRITTEN: Remark(
        'volume', 'the database rejected the volume. The report names the reason. Other volumes '
        'were written',
        'Repair the volume in Cinder, and repeat the import.'),
    'in_work': Remark(
        'volume', 'the status or the migration status shows an operation in progress in Cinder',
        'Wait for the operation to finish, or reset the status in Cinder: cinder reset-state.'),
    'no_pool': Remark(
        'volume', 'the host does not name a backend and a pool (host@backend#pool)',
        'Pass --pool HOST=host@backend#pool.'),
    'no_type': Remark(
        'volume', 'the volume type is deleted, or is refused',
        'Retype the volume in Cinder: cinder retype.'),
    'other_name': Remark(
        'volume', 'the storage has a different id since a migration of the volume (_name_id)',
        'Migrate the volume again in Cinder without attachments, or copy the volume.'),
    'encrypted': Remark(
        'volume', 'the volume is encrypted by the consumer with a key of a key manager, which is '
        'not supported',
        'Copy the data to a volume of a type without encryption.'),
    'replicated': Remark(
        'volume', 'the volume is replicated', 'Disable the replication in Cinder.'),
    'many_holders': Remark(
        'volume', 'the volume is attached to several servers but is not multiattach',
        'Delete the unused attachments in Cinder.'),
    'unknown_holder': Remark(
        'volume', 'the status shows that the volume is in use, but no attachment exists',
        'Detach the volume from its consumer, then run cinder reset-state --state available.'),
    'snapshot_in_work': Remark(
        'snapshot', 'the status shows an operation in progress in Cinder',
        'Wait for the operation to finish, or reset the status in Cinder: cinder '
        'snapshot-reset-state.'),
    'no_initiator': Remark(
        'attachment', 'the initiator name of the host is not recorded',
        'Pass --initiator HOST=NAME with the name from /etc/iscsi/initiatorname.iscsi of the '
        'host. Use the id of the server instead of HOST if Cinder has not recorded the host. '
        'Alternatively, detach the volume in Cinder.'),
    'bad_connector': Remark(
        'attachment', 'the connector is invalid', 'Detach the volume in Cinder.'),
    'no_chap': Remark(
        'attachment', 'the target requires no credential (CHAP)',
        'Detach the volume in Cinder.'),
    'not_iscsi': Remark(
        'attachment', 'the host uses a protocol other than iSCSI',
        'Detach the volume in Cinder.'),
    'other_target': Remark(
        'attachment', 'the target name does not end with the volume id, or the connection '
        'information is missing', 'Detach the volume in Cinder.'),
    'name_taken': Remark(
        'type or QoS specs', 'the name is already used in blockattach by another type or other '
        'QoS specs',
        'Rename one of them.'),
}
"""Reasons to refuse an item, by code.

If any item is refused, nothing is imported, unless the operator excludes the refused items.
"""

CHANGED: Mapping[str, Remark] = {
    'default_replaced': Remark(
        'volume type', 'the unused volume type that was created with the database is replaced by '
        'the imported type of the same name'),
    'status': Remark(
        'volume', 'the status was changed to match the attachments'),
    'no_longer_offered': Remark(
        'volume', 'the volume is no longer offered to another project, because the authorization '
        'key of the offer cannot be imported'),
    'group_left': Remark('volume', 'the volume was removed from its group'),
    'counted': Remark('volume', 'the volume now counts towards the quota of its project'),
    'default_type': Remark('volume', 'the volume had no type and got the default type'),
    'unconnected': Remark(
        'attachment', 'the attachment was attaching without a connection and became a '
        'reservation'),
    'detaching': Remark(
        'attachment', 'the detach was interrupted, and the attachment became attached'),
    'consumer_enforces': Remark(
        'attachment', 'the attachment keeps the credential that all hosts of the volume share. '
        'The target cannot enforce the mode until the volume is attached again'),
}
"""Changes made to imported items, by code."""

LEFT: Mapping[str, Remark] = {
    'backups': Remark('backup', 'backups are not supported'),
    'groups': Remark('group', 'groups are not supported'),
    'quotas': Remark('quota', 'the limited resource is not supported'),
    'lost': Remark('snapshot or attachment', 'the volume is deleted in Cinder'),
}
"""Data that is counted, but not imported, by code."""

# The first five follow from the attachments, which are imported separately.
_AVAILABLE = ('available', 'in-use', 'attaching', 'detaching', 'reserved', 'awaiting-transfer')
OWN_STATUSES: Mapping[str, volume_lifecycle.OwnStatus] = {
    **dict.fromkeys(_AVAILABLE, _Own.AVAILABLE),
    **{one.value: one for one in (
        _Own.ERROR, _Own.ERROR_DELETING, _Own.ERROR_EXTENDING, _Own.ERROR_RESTORING,
        _Own.ERROR_BACKING_UP, _Own.ERROR_MANAGING, _Own.MAINTENANCE)}}
"""Own status of a volume by its status in Cinder. Any other status means an operation in progress.
"""

SNAPSHOT_STATUSES = frozenset({'available', 'error', 'error_deleting'})
SETTLED_MIGRATIONS = frozenset({None, '', 'none', 'success', 'error'})
"""Migration statuses without a migration in progress."""

OFFERED = 'awaiting-transfer'
HELD = frozenset({'in-use', 'detaching'})
"""Statuses of a volume that must have an attachment."""
_DETACHING = 'detaching'
_LONGEST_ACCOUNT, _LONGEST_PASSWORD = 64, 128
_WORD = re.compile(r'[!-~]+')
# `provider_location` of Cinder's iSCSI drivers.
_LOCATION = re.compile(r'(?P<portals>\S+?),\S+ (?P<iqn>\S+) (?P<lun>[0-9]{1,9})')


@dataclasses.dataclass(frozen=True, slots=True)
class Choices:
    """Options that an operator passes to the import.

    :ivar initiators: initiator names for connectors that Cinder has not stored. A key is a host,
        or the id of a server on the host
    :ivar pools: ``host@backend#pool`` by the ``host`` column of a volume in Cinder
    """

    initiators: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pools: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """Attachment as stored by Cinder.

    :ivar mode: attach mode; None if not stored
    :ivar info: connection information
    :ivar location: ``provider_location`` of the volume
    """

    id: str
    volume_id: str
    instance_uuid: str | None
    host: str | None
    mountpoint: str | None
    status: str | None
    mode: str | None
    connector: Mapping[str, Any] | None
    info: Mapping[str, Any] | None
    location: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """Attachment as imported.

    :ivar changed: key of `CHANGED`; None if the import changes nothing
    """

    state: attachment_lifecycle.State
    mode: connection.AccessMode | None
    connector: dict[str, Any] | None = None
    connection: dict[str, Any] | None = None
    changed: str | None = None


class Refused(Exception):
    """Error about a row that cannot be imported.

    :ivar code: key of `REFUSED`
    :ivar text: details in addition to `REFUSED`; empty if there are none
    """

    def __init__(self, code: str, text: str = '') -> None:
        super().__init__(code)
        self.code, self.text = code, text


def pool_of(host: str | None, choices: Choices) -> str | None:
    """Return the ``host@backend#pool`` of a volume, or None if its host does not name a pool."""
    pool = choices.pools.get(host or '', host or '')
    backend, mark, name = pool.partition('#')
    return pool if mark and name and '@' in backend else None


def attachment(stored: Found, choices: Choices) -> Taken:
    """Return the imported form of an attachment.

    :raises Refused: if the attachment is invalid, or if its host would lose its session
    """
    if stored.mode not in cinder_rows.ATTACH_MODES:
        raise Refused('damaged', 'attach_mode: not rw, ro or NULL')
    mode = connection.AccessMode(stored.mode) if stored.mode in ('rw', 'ro') else None
    state, changed = _state(stored)
    # An exported volume may be in use by a host that Cinder has not recorded.
    if state is _State.RESERVED or not (
            stored.host or stored.connector or stored.info or stored.location):
        return Taken(state, mode, changed=changed)
    connector = _connector(stored, mode, choices)
    return Taken(state, mode or connection.AccessMode.RW, connector, _connection(stored), changed)


def credential(provider_auth: str | None,
               infos: Iterable[Mapping[str, Any] | None]) -> connection.Credential | None:
    """Return the CHAP credential that all hosts of a volume share, or None if there is none.

    :param provider_auth: value of the column in Cinder, which takes precedence over ``infos``
    :param infos: connection information of the attachments of the volume
    :raises Refused: if the credential is invalid
    """
    # ``CHAP <name> <password>``, as Cinder's iSCSI drivers write it.
    words = (provider_auth or '').split(' ')
    if len(words) == 3 and words[0] == 'CHAP':
        return _credential('provider_auth', *words[1:])
    for info in infos:
        data = _flat(info)
        if data.get('auth_method') == 'CHAP':
            return _credential('connection_info', data.get('auth_username'),
                               data.get('auth_password'))
    return None


def _credential(column: str, account: Any, password: Any) -> connection.Credential:
    """Validate a credential for targets and for the database.

    :raises Refused: if the credential is invalid for targets or too long for the database
    """
    for name, value, longest in (('account', account, _LONGEST_ACCOUNT),
                                 ('password', password, _LONGEST_PASSWORD)):
        if not isinstance(value, str) or not _WORD.fullmatch(value) or len(value) > longest:
            raise Refused('damaged', f'{column}: the CHAP {name} is not 1 to {longest} '
                                     'ASCII characters without blanks')
    return connection.Credential(account, password)


def _state(stored: Found) -> tuple[attachment_lifecycle.State, str | None]:
    if stored.status == 'reserved':
        return _State.RESERVED, None
    if stored.status == 'attaching':
        if stored.connector and stored.info:
            return _State.CONNECTED, None
        return _State.RESERVED, 'unconnected'
    if stored.status in ('error_attaching', 'error_detaching'):
        return _State(stored.status), None
    # The host of a detaching attachment may still use the volume, and Cinder does not resume the
    # detach. In state attached, the attachment can be deleted again.
    return _State.ATTACHED, 'detaching' if stored.status == _DETACHING else None


def _connector(stored: Found, mode: connection.AccessMode | None,
               choices: Choices) -> dict[str, Any]:
    made = dict(stored.connector or {})
    host = made.get('host') or stored.host
    made['initiator'] = (made.get('initiator') or choices.initiators.get(host or '')
                         or choices.initiators.get(stored.instance_uuid or ''))
    if not made['initiator']:
        raise Refused('no_initiator')
    made |= {'host': host, 'mode': (mode or connection.AccessMode.RW).value}
    if stored.mountpoint:
        made['mountpoint'] = stored.mountpoint
    made = {key: value for key, value in made.items() if value is not None}
    try:
        connection.check_connector(made)
        connection.initiator_of(made)
    except (errors.InvalidInput, errors.ConnectorUnusable) as exc:
        raise Refused('bad_connector') from exc
    return connection.masked(made)


def _connection(stored: Found) -> dict[str, Any]:
    info = _flat(stored.info) or _located(stored.location)
    if info.get('driver_volume_type', 'iscsi') != 'iscsi':
        raise Refused('not_iscsi')
    # The drivers find the target of a volume by the volume id in the target name.
    if not str(info.get('target_iqn', '')).endswith(f':volume-{stored.volume_id}'):
        raise Refused('other_target')
    for key, is_right in _FACTS.items():
        if not is_right(info[key]) if info.get(key) is not None else key in _NEEDED:
            raise Refused('damaged', f'connection_info: {key} is missing or invalid')
    return {'driver_volume_type': 'iscsi', 'target_discovered': False,
            **{key: info[key] for key in _FACTS if info.get(key) is not None}}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= cinder_rows.LONGEST


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)
            and 0 <= value <= cinder_rows.LARGEST)


def _is_size(value: Any) -> bool:
    return _is_number(value) or (_is_text(value) and value.isascii() and value.isdigit())


def _is_limits(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        one is None or _is_text(one) or _is_number(one) for one in value.values())


def _is_list_of(is_right: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_right, value))


_TEXTS = functools.partial(_is_list_of, _is_text)
_FACTS: Mapping[str, Callable[[Any], bool]] = {
    'target_portal': _is_text, 'target_iqn': _is_text, 'target_lun': _is_number,
    'target_discovered': _is_flag, 'target_portals': _TEXTS, 'target_iqns': _TEXTS,
    'target_luns': functools.partial(_is_list_of, _is_number),
    'discard': _is_flag, 'logical_block_size': _is_size, 'physical_block_size': _is_size,
    'qos_specs': _is_limits}
"""Imported keys of connection information, with functions that check their values."""
_NEEDED = ('target_portal', 'target_iqn', 'target_lun')


def _flat(info: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return connection information as one mapping.

    Older Cinder releases store most keys in a nested mapping ``data``.
    """
    found = dict(info or {})
    inner = found.pop('data', None)
    # A key beside `data` takes precedence over the nested one.
    return {**(inner if isinstance(inner, Mapping) else {}), **found}


def _located(location: str | None) -> dict[str, Any]:
    """Parse a ``provider_location`` of the form ``portal[;portal...],portal_group iqn lun``.

    :returns: keys of connection information; empty if the location has another form
    """
    found = _LOCATION.fullmatch(location or '')
    if found is None:
        return {}
    portals, name, lun = found['portals'].split(';'), found['iqn'], int(found['lun'])
    made: dict[str, Any] = {'target_portal': portals[0], 'target_iqn': name, 'target_lun': lun}
    if len(portals) > 1:
        made |= {'target_portals': portals, 'target_iqns': [name] * len(portals),
                 'target_luns': [lun] * len(portals)}
    return made

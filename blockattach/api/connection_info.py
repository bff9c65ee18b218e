"""How a host reaches its volume, as clients read it: flat in an attachment, nested in the answer
to os-initialize_connection. Whose credential may be seen is decided here for both.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import grants
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import attachments as policies

_LONGEST_NAME = 255
_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': _LONGEST_NAME}

# What a host says of itself is its own business; only what we store by itself has a form.
CONNECTOR = schema.obj({'host': _NAME, 'initiator': _NAME, 'mountpoint': _NAME}, additional=True)

_ALWAYS = {
    'target_discovered': answers.BOOLEAN,
    'target_portal': answers.TEXT,
    'target_iqn': answers.TEXT,
    'target_lun': answers.INTEGER,
    'volume_id': schema.UUID,
    'encrypted': answers.BOOLEAN,
    'qos_specs': answers.NULL,
    'access_mode': {'enum': ['rw', 'ro']},
    'cacheable': answers.BOOLEAN,
    'enforce_multipath': answers.BOOLEAN,
}
_SOMETIMES = {
    'target_portals': schema.array(answers.TEXT),
    'target_iqns': schema.array(answers.TEXT),
    'target_luns': schema.array(answers.INTEGER),
    'auth_method': {'enum': ['CHAP']},
    'auth_username': answers.TEXT,
    'auth_password': answers.TEXT,
}
_NAMED = {'driver_volume_type': answers.TEXT, 'attachment_id': schema.UUID}

FLAT: schema.Schema = {'anyOf': [
    answers.NULL,
    schema.obj(),
    schema.obj({**_ALWAYS, **_SOMETIMES, **_NAMED}, required=[*_ALWAYS, *_NAMED]),
]}
"""Empty before a connector came; null where os-attach told of a consumer without one."""

NESTED: schema.Schema = answers.whole({
    'driver_volume_type': answers.TEXT,
    'data': schema.obj({**_ALWAYS, **_SOMETIMES}, required=_ALWAYS),
    'enforce_multipath': answers.BOOLEAN,
})

_AUTH_METHOD = 'CHAP'


def flat(services: api_services.ApiServices, call: operation.Call,
         attachments: Sequence[records.Attachment]) -> dict[str, dict[str, Any] | None]:
    """By the attachments' ids, with the credentials that the caller may see: one query for all."""
    pairs = {one.id: (one.volume_id, initiator) for one in attachments
             if (initiator := _connected_initiator(one)) is not None
             and services.policy.allowed(call.context, policies.SECRETS, one.project_id)}
    credentials = grants.credentials(services.database, pairs.values())
    return {one.id: _composed(one, credentials.get(pairs[one.id]) if one.id in pairs else None)
            for one in attachments}


def nested(info: Mapping[str, Any]) -> dict[str, Any]:
    """The form that clients knew before there were attachments."""
    return {
        'driver_volume_type': info['driver_volume_type'],
        'data': {key: value for key, value in info.items() if key not in _NAMED},
        'enforce_multipath': info['enforce_multipath'],
    }


def _connected_initiator(attachment: records.Attachment) -> str | None:
    """Whom the stored connection belongs to; None if there is no connection.

    While another connector is being let in, that is still the one before.
    """
    if attachment.connection is None:
        return None
    return attachment.previous_initiator or attachment.initiator


def _composed(attachment: records.Attachment,
              credential: connection.Credential | None) -> dict[str, Any] | None:
    """:param credential: what the initiator must prove; None: none, or not for this caller"""
    if attachment.connection is None:
        # Only os-attach tells of a mountpoint without an initiator.
        told = attachment.mountpoint is not None and attachment.initiator is None
        return None if told else {}
    connector = attachment.previous_connector or attachment.connector or {}
    info = {
        **attachment.connection,
        'volume_id': attachment.volume_id,
        'attachment_id': attachment.id,
        'encrypted': False,
        'qos_specs': None,
        'access_mode': attachment.mode or connection.AccessMode.RW,
        'cacheable': False,
        'enforce_multipath': bool(connector.get('enforce_multipath')),
    }
    if connector.get('multipath') is True and 'target_portals' not in info:
        # A host that joins several paths reads lists, however many there are.
        info |= {f'{key}s': [info[key]] for key in ('target_portal', 'target_iqn', 'target_lun')}
    if credential is not None:
        info |= {'auth_method': _AUTH_METHOD, 'auth_username': credential.username,
                 'auth_password': credential.password}
    return info

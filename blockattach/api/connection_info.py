"""How a host reaches its volume, as clients read it: flat in an attachment, nested in the answer
to os-initialize_connection.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import attaching

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
    'qos_specs': {'type': ['object', 'null'], 'additionalProperties': {
        'type': ['string', 'integer', 'null']}},
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
    'discard': {'enum': [True]},
    'logical_block_size': answers.TEXT,
    'physical_block_size': answers.TEXT,
}
_NAMED = {'driver_volume_type': answers.TEXT, 'attachment_id': schema.UUID}

FLAT: schema.Schema = {'anyOf': [
    answers.NULL,
    schema.obj(),
    schema.obj({**_ALWAYS, **_SOMETIMES, **_NAMED}, required=[*_ALWAYS, *_NAMED]),
]}
"""Empty before there is a connector; null where os-attach named a consumer without one."""

NESTED: schema.Schema = answers.whole({
    'driver_volume_type': answers.TEXT,
    'data': schema.obj({**_ALWAYS, **_SOMETIMES}, required=_ALWAYS),
    'enforce_multipath': answers.BOOLEAN,
})


def flat(services: api_services.ApiServices, call: operation.Call,
         attachments: Sequence[records.Attachment]) -> dict[str, dict[str, Any] | None]:
    """By the attachments' ids, with the credentials that the caller may see."""
    return attaching.connection_infos(services.policy, call.context, services.database,
                                      attachments)


def nested(info: Mapping[str, Any]) -> dict[str, Any]:
    """The form that clients knew before there were attachments."""
    return {
        'driver_volume_type': info['driver_volume_type'],
        'data': {key: value for key, value in info.items() if key not in _NAMED},
        'enforce_multipath': info['enforce_multipath'],
    }

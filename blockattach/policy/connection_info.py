"""How hosts reach their volumes, and which credentials the caller may see."""
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.db import engine
from blockattach.db import grants
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.policy import attachments as rules
from blockattach.policy import enforcer

_AUTH_METHOD = 'CHAP'


def shown(policy: enforcer.Enforcer, caller: context.RequestContext, database: engine.Database,
          attachments: Sequence[records.Attachment]) -> dict[str, dict[str, Any] | None]:
    """By the attachments' ids, which were read with their credentials."""
    return {one.id: _composed(one, grants.opened(database, one.sealed)
                              if one.connection is not None and one.sealed is not None
                              and policy.allowed(caller, rules.SECRETS, one.project_id)
                              else None) for one in attachments}


def _composed(attachment: records.Attachment,
              credential: connection.Credential | None) -> dict[str, Any] | None:
    """:param credential: what the initiator must prove; None: none, or not for this caller"""
    if attachment.connection is None:
        # Only os-attach sets a mountpoint without an initiator.
        by_os_attach = attachment.mountpoint is not None and attachment.initiator is None
        return None if by_os_attach else {}
    connector = attachment.previous_connector or attachment.connector or {}
    info = {
        'qos_specs': None,
        **attachment.connection,
        'volume_id': attachment.volume_id,
        'attachment_id': attachment.id,
        'encrypted': False,
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

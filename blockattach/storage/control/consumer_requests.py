"""What a consumer on the bus asks for: checked, and brought into the form of the verbs.

The API checks them by the schemas of its operations.
"""
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from oslo_serialization import jsonutils

from blockattach.platform import context
from blockattach.platform import idempotency
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import pairs
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection

FILTERS = frozenset(('volume_id', 'instance_uuid', 'host', 'attach_status'))

_UUID = re.compile(r'[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}')
_OPERATION = ('RPC', 'attachments.create')


def wish(expected: pairs.Precondition, instance_uuid: Any, connector: Any,
         mode: Any, forbidden_by: str | None) -> attachments.Wish:
    """The attachment that is asked for; an empty connector is none.

    :param forbidden_by: see `blockattach.storage.policy.access`
    :raises InvalidInput: an argument is malformed
    """
    if instance_uuid is not None and not is_id(instance_uuid):
        raise _invalid('instance_uuid', 'a UUID')
    if mode is not None and mode not in list(connection.AccessMode):
        raise _invalid('mode', 'rw or ro')
    return attachments.Wish(
        expected.volume.id, expected.volume.project_id, instance_uuid,
        mode and connection.AccessMode(mode), connector_of(connector) if connector else None,
        forbidden_by=forbidden_by, expected=expected)


def connector_of(value: Any) -> Mapping[str, Any]:
    """What a host says of itself.

    :raises InvalidInput: it is none, or beyond what `connection.check_connector` takes
    """
    if not isinstance(value, Mapping) or not value:
        raise _invalid('connector', 'a non-empty mapping')
    connection.check_connector(value)
    return value


def named(caller: context.RequestContext, key: Any,
          arguments: Mapping[str, Any]) -> idempotency.Request | None:
    """The name that a consumer gave its request; None: it gave none.

    :raises InvalidInput: it cannot be a name
    """
    if key is None:
        return None
    if not isinstance(key, str):
        raise _invalid('idempotency_key', 'a string')
    written = jsonutils.dumps(arguments, sort_keys=True)
    return idempotency.named(caller.project_id or '', caller.user_id or '', *_OPERATION, key,
                             hashlib.sha256(written.encode()).hexdigest())


def filters(caller: context.RequestContext, asked: Any,
            all_projects: Any) -> attachment_queries.Filters:
    """Which attachments shall be listed; only an administrator sees those of all projects.

    :raises InvalidFilter: there is no such filter
    :raises InvalidInput: a filter is malformed
    """
    if not isinstance(asked, Mapping):
        raise _invalid('filters', 'a mapping')
    unknown = sorted(set(asked) - FILTERS)
    if unknown:
        raise errors.InvalidFilter(filters=','.join(unknown))
    for name, value in asked.items():
        if not isinstance(value, str) or '\0' in value:
            raise _invalid(name, 'a string')
    word = asked.get('attach_status')
    return attachment_queries.Filters(
        project_id=None if all_projects and caller.is_admin else caller.project_id,
        volume_id=asked.get('volume_id'), instance_uuid=asked.get('instance_uuid'),
        host=asked.get('host'),
        states=None if word is None else attachment_lifecycle.states_on_wire(word))


def page(marker: Any, limit: Any, most: int) -> paging.Page:
    """Which part of a list, the newest first.

    :param most: the most items that a page has
    :raises InvalidInput: an argument is malformed
    :raises AttachmentNotFound: the marker cannot be one
    """
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise _invalid('limit', 'a non-negative integer')
    if marker is not None and not is_id(marker):
        raise errors.AttachmentNotFound(attachment_id=marker)
    return paging.Page(limit=most if limit is None else min(limit, most), marker=marker)


def is_id(value: Any) -> bool:
    """Whether something of ours could have it as its id."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _invalid(name: str, wanted: str) -> errors.InvalidInput:
    return errors.InvalidInput(reason=f'Invalid input received: {name} must be {wanted}.')

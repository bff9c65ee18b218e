"""Validation of the requests of consumers on the message bus.

The API validates its requests by the schemas of its operations instead.
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
    """Return the requested attachment. An empty connector reserves the volume only.

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
    """Return the connector after a check.

    :raises InvalidInput: the connector is not a non-empty mapping, or fails
        `connection.check_connector`
    """
    if not isinstance(value, Mapping) or not value:
        raise _invalid('connector', 'a non-empty mapping')
    connection.check_connector(value)
    return value


def named(caller: context.RequestContext, key: Any,
          arguments: Mapping[str, Any]) -> idempotency.Request | None:
    """Return the request of a caller with its idempotency key, or None if there is no key.

    :raises InvalidInput: the key is not valid
    """
    if key is None:
        return None
    if not isinstance(key, str):
        raise _invalid('idempotency_key', 'a string')
    # Sorted, because a client may send the keys of a connector in any order when it repeats.
    written = jsonutils.dumps(arguments, sort_keys=True)
    return idempotency.named(caller.project_id or '', caller.user_id or '', *_OPERATION, key,
                             hashlib.sha256(written.encode()).hexdigest())


def filters(caller: context.RequestContext, requested: Any,
            all_projects: Any) -> attachment_queries.Filters:
    """Return the filters of a list. Only administrators see attachments of all projects.

    :raises InvalidFilter: a filter is unknown
    :raises InvalidInput: a filter is malformed
    """
    if not isinstance(requested, Mapping):
        raise _invalid('filters', 'a mapping')
    unknown = sorted(set(requested) - FILTERS)
    if unknown:
        raise errors.InvalidFilter(filters=','.join(unknown))
    for name, value in requested.items():
        if not isinstance(value, str) or '\0' in value:
            raise _invalid(name, 'a string')
    word = requested.get('attach_status')
    return attachment_queries.Filters(
        project_id=None if all_projects and caller.is_admin else caller.project_id,
        volume_id=requested.get('volume_id'), instance_uuid=requested.get('instance_uuid'),
        host=requested.get('host'),
        states=None if word is None else attachment_lifecycle.states_on_wire(word))


def page(marker: Any, limit: Any, most: int) -> paging.Page:
    """Return the requested page of a list, the newest items first.

    :param most: maximum number of items on a page
    :raises InvalidInput: an argument is malformed
    :raises AttachmentNotFound: the marker is not a valid ID
    """
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise _invalid('limit', 'a non-negative integer')
    if marker is not None and not is_id(marker):
        # The same error as for an unknown marker, which is HTTP 404 in Cinder.
        raise errors.AttachmentNotFound(attachment_id=marker)
    return paging.Page(limit=most if limit is None else min(limit, most), marker=marker)


def is_id(value: Any) -> bool:
    """Return True if the value has the form of a resource ID."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _invalid(name: str, expected: str) -> errors.InvalidInput:
    return errors.InvalidInput(reason=f'Invalid input received: {name} must be {expected}.')

"""Validation of the RPC calls of consumers, such as Nova, on the message bus.

The API does not use this module, but validates requests by the schemas of its operations.
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
    """Validate the arguments of a create call, and return the requested attachment.

    :param expected: precondition of the attachment, with the volume for which the request was
        authorized
    :param connector: connector of the host; if empty, the attachment only reserves the volume
    :param forbidden_by: result of `blockattach.storage.policy.access.forbidden_by`
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
    """Validate a connector, and return the connector.

    :raises InvalidInput: the connector is empty or not a mapping, or
        `connection.check_connector` rejects it
    """
    if not isinstance(value, Mapping) or not value:
        raise _invalid('connector', 'a non-empty mapping')
    connection.check_connector(value)
    return value


def named(caller: context.RequestContext, key: Any,
          arguments: Mapping[str, Any]) -> idempotency.Request | None:
    """Return the identity of a create call with an idempotency key.

    :param key: idempotency key; None if the caller sends no key
    :param arguments: other arguments of the call, which a repeated call must not change
    :returns: None if the caller sends no key
    :raises InvalidInput: the key is not a string, is empty, or is too long
    """
    if key is None:
        return None
    if not isinstance(key, str):
        raise _invalid('idempotency_key', 'a string')
    # Sorted, because a repeated call may have the keys of the connector in another order.
    written = jsonutils.dumps(arguments, sort_keys=True)
    return idempotency.named(caller.project_id or '', caller.user_id or '', *_OPERATION, key,
                             hashlib.sha256(written.encode()).hexdigest())


def filters(caller: context.RequestContext, requested: Any,
            all_projects: Any) -> attachment_queries.Filters:
    """Validate and return the filters of a list call.

    :param requested: values of filters by the names in `FILTERS`
    :param all_projects: True to list the attachments of all projects. This has no effect if the
        caller is not an administrator
    :raises InvalidFilter: the name of a filter is unknown
    :raises InvalidInput: the filters are not a mapping, or a value is not a valid string
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
    """Validate the marker and the limit of a list call, and return the page.

    The newest attachments come first.

    :param marker: ID of the last attachment on the previous page; None for the first page
    :param limit: number of attachments on the page; None for the maximum
    :param most: maximum number of attachments on a page
    :raises InvalidInput: the limit is not a non-negative integer
    :raises AttachmentNotFound: the marker does not have the form of an ID
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

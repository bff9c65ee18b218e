"""Pieces that the promises of answers are made of: schemas, and what may go wrong.

Answers are strict: no key that is not named.
"""
from collections.abc import Mapping

from blockattach import errors
from blockattach.http import schema

TEXT: schema.Schema = {'type': 'string'}
NULLABLE_TEXT: schema.Schema = {'type': ['string', 'null']}
BOOLEAN: schema.Schema = {'type': 'boolean'}
INTEGER: schema.Schema = {'type': 'integer'}
NULL: schema.Schema = {'type': 'null'}
EMPTY: schema.Schema = {'type': 'null'}
"""The answer has no body."""

_TIME = r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$'
TIME: schema.Schema = {'type': 'string', 'pattern': _TIME}
NULLABLE_TIME: schema.Schema = {'type': ['string', 'null'], 'pattern': _TIME}
TIME_OR_EMPTY: schema.Schema = {'anyOf': [TIME, {'enum': ['']}]}

LINKS: schema.Schema = schema.array(
    schema.obj({'rel': {'enum': ['self', 'bookmark']}, 'href': TEXT}, ['rel', 'href']),
    minItems=2, maxItems=2)
NEXT_LINK: schema.Schema = schema.array(
    schema.obj({'rel': {'enum': ['next']}, 'href': TEXT}, ['rel', 'href']),
    minItems=1, maxItems=1)
TEXTS_BY_KEY: schema.Schema = {'type': 'object', 'additionalProperties': TEXT}


def whole(properties: Mapping[str, schema.Schema]) -> schema.Schema:
    """An object that has every one of these keys, and no other."""
    return schema.obj(properties, properties)


BACKEND = (errors.BackendRefused, errors.BackendUncertain, errors.ServiceUnreachable)
"""What may go wrong where a backend is asked."""
ATTACHING = (*BACKEND, errors.InvalidTransition, errors.AttachmentBusy)
DETACHING = (*ATTACHING, errors.AttachmentInUseByServer, errors.NovaUnavailable)
REPEATED = (errors.IdempotencyKeyReused, errors.IdempotencyKeyTaken)
"""What may go wrong where a request has a name (Idempotency-Key)."""

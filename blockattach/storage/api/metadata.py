"""Operations on the metadata of a resource.

From 3.15 on, the metadata have an ETag. A change with ``If-Match`` fails if the metadata no longer
have this ETag. The check is part of the transaction of the change, so that only one of two
concurrent changes succeeds.
"""
import dataclasses
import functools
import hashlib
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from webob import etag

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import responses
from blockattach.platform.http import schema
from blockattach.platform.http.operation import Operation
from blockattach.platform.http.operation import V
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.db import storage_db
from blockattach.storage.domain import records

# Cinder's rules for keys and values.
KEY = '^[a-zA-Z0-9_:. /-]{1,255}$'
PAIRS = schema.obj(patternProperties={KEY: {'type': 'string', 'maxLength': 255}})
_ONE: schema.Schema = {**PAIRS, 'minProperties': 1, 'maxProperties': 1}
_ETAGS = V(3, 15)

Pairs = Mapping[str, str]
Change = Callable[[Pairs], Pairs]


@dataclasses.dataclass(frozen=True, slots=True)
class Noun:
    """Type of resource that has metadata.

    :ivar path: path of a resource, such as ``/volumes/{id}``
    :ivar target: function that returns a resource, whose attribute ``metadata`` contains the
        metadata
    :ivar change: function that changes the metadata of a resource in a transaction, and returns
        the new metadata. Its last argument is a function that maps the current metadata to the
        new metadata. This function may raise an error, and may be called several times.
    :ivar absent: function that returns the error about a missing key, from the resource ID and the
        key
    :ivar get, create, update, delete: policy rules of the operations
    """

    path: str
    target: operation.Target
    change: Callable[[storage_db.Database, records.Judged, Change], Pairs]
    absent: Callable[[str, str], errors.NotFound]
    get: str
    create: str
    update: str
    delete: str

    def operations(self) -> tuple[Operation, ...]:
        """Return the metadata operations of the resource."""
        row = functools.partial(Operation, target=self.target)
        everything, one = f'{self.path}/metadata', f'{self.path}/metadata/{{key}}'
        body = {operation.BASE: schema.wrapped('metadata', PAIRS)}
        answer = {operation.BASE: schema.wrapped('metadata', answers.TEXTS_BY_KEY)}
        item = {operation.BASE: schema.wrapped('meta', answers.TEXTS_BY_KEY)}
        changing = (errors.PreconditionFailed,)
        owner = self.path.split('/')[1].removesuffix('s')
        return (
            row('GET', everything, self._list, policy=self.get, answer=answer,
                summary=f'Show the metadata of a {owner}.'),
            row('POST', everything, self._merge, policy=self.create, body=body, answer=answer,
                summary=f'Create or update metadata items of a {owner}.', faults=changing),
            row('PUT', everything, self._replace, policy=self.update, body=body, answer=answer,
                summary=f'Replace the metadata of a {owner}.', faults=changing),
            row('GET', one, self._show, policy=self.get, answer=item,
                summary=f'Show a metadata item of a {owner}.'),
            row('PUT', one, self._set, policy=self.update, answer=item,
                body={operation.BASE: schema.wrapped('meta', _ONE)},
                summary=f'Create or update a metadata item of a {owner}.', faults=changing),
            row('DELETE', one, self._remove, policy=self.delete,
                answer={operation.BASE: answers.EMPTY},
                summary=f'Delete a metadata item of a {owner}.', faults=changing),
        )

    def _list(self, services: api_services.ApiServices, call: operation.Call) -> Any:
        shown = _shown(call.target.metadata)
        if call.version < _ETAGS:
            return shown
        return operation.Answer(shown, headers={'ETag': _tag(call.target.metadata)})

    def _show(self, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        key = call.path['key']
        if key not in call.target.metadata:
            raise self.absent(call.target.id, key)
        return {'meta': {key: call.target.metadata[key]}}

    def _merge(self, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        added = call.body['metadata']
        return {'metadata': self._change(services, call, lambda now: {**now, **added})}

    def _replace(self, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        wanted = call.body['metadata']
        return {'metadata': self._change(services, call, lambda now: wanted)}

    def _set(self, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        item = call.body['meta']
        if call.path['key'] not in item:
            raise errors.InvalidInput('Request body and URI mismatch')
        self._change(services, call, lambda now: {**now, **item})
        return {'meta': item}

    def _remove(self, services: api_services.ApiServices, call: operation.Call) -> None:
        key = call.path['key']

        def without(now: Pairs) -> Pairs:
            if key not in now:
                raise self.absent(call.target.id, key)
            return {name: value for name, value in now.items() if name != key}
        self._change(services, call, without)

    def _change(self, services: api_services.ApiServices, call: operation.Call,
                change: Change) -> Pairs:
        wanted = call.headers.get('If-Match') if call.version >= _ETAGS else None

        def checked(now: Pairs) -> Pairs:
            # The ETag is compared here, because `now` is read under the lock of the resource.
            if wanted and _tag(now) not in etag.ETagMatcher.parse(wanted):
                raise errors.PreconditionFailed
            return change(now)
        return self.change(services.database, call.target, checked)


def _shown(metadata: Pairs) -> dict[str, Any]:
    # The keys are sorted, so that equal metadata have equal ETags.
    return {'metadata': dict(sorted(metadata.items()))}


def _tag(metadata: Pairs) -> str:
    """Return the MD5 of the response body, which is also Cinder's ETag of the metadata."""
    return hashlib.md5(responses.dumps(_shown(metadata)), usedforsecurity=False).hexdigest()

"""Volume types, their QoS and encryption, in the simulation.

Clients change the access to private types and the default types of projects. Both must be as in
the last answer. An operation also covers the message about a volume whose type no backend serves.
"""
import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.storage.db import models
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation.nouns import volumes

_PASSING = 'passing'
_PROJECTS = (clients.PROJECT, 'shop')
_MEMBER = {'HTTP_X_AUTH_TOKEN': f'{clients.USER}:{clients.PROJECT}:member,reader'}
_MOST = 4
_NONE = ''


@dataclasses.dataclass(slots=True)
class _Fact:
    """Value that clients change, as far as it is known from answers.

    ``value`` is None if it is unknown. ``asked`` counts the requests that change the value, and
    ``changing`` those that may still be executed.
    """

    value: Any
    asked: int = 0
    changing: int = 0

    @property
    def stable(self) -> bool:
        """True if the value is known and no request may change it."""
        return self.value is not None and not self.changing

    def begin(self) -> int:
        """Note the start of a request that changes the value.

        :returns: the number of the request; 0 if another request may change the value meanwhile
        """
        self.asked += 1
        self.changing += 1
        return self.asked if self.changing == 1 else 0

    def end(self, asked: int, answer: clients.Answer, said: Mapping[int, Any]) -> None:
        """Note the answer to a request. Without a definite answer, it may still be executed."""
        if not answer.lost:
            self.changing -= 1
        if answer.lost or asked != self.asked:
            self.value = None
        else:
            self.value = said.get(answer.status, self.value)


class Types(clients.Played):
    """Private types, their access by project, and the default types of the projects."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._access: dict[str, dict[str, _Fact]] = {}
        """Access to private types by type and project."""
        self._defaults = {project: _Fact(_NONE) for project in _PROJECTS}
        self._names = 0

    def _make(self) -> None:
        self._names += 1
        answer = self._all.ask('POST', '/types', {'volume_type': {
            'name': f'private-{self._names}', 'os-volume-type-access:is_public': False}})
        if answer.status == 200:
            self._access[answer.made] = {project: _Fact(False) for project in _PROJECTS}

    def _any(self) -> str | None:
        if len(self._access) < _MOST:
            self._make()
        return self._chance.choice(list(self._access)) if self._access else None

    def _let(self) -> None:
        self._change_access('addProjectAccess', {202: True, 409: True})

    def _forbid(self) -> None:
        self._change_access('removeProjectAccess', {202: False, 404: False})

    def _change_access(self, action: str, said: Mapping[int, bool]) -> None:
        kind, project = self._any(), self._chance.choice(_PROJECTS)
        if kind is not None:
            fact = self._access[kind][project]
            asked = fact.begin()
            fact.end(asked, self._all.ask('POST', f'/types/{kind}/action',
                                          {action: {'project': project}}), said)

    def _use(self) -> None:
        """Get a type as a member, who must see it only if the project has access to it."""
        kind = self._any()
        if kind is None:
            return
        fact = self._access[kind][clients.PROJECT]
        value, asked = fact.value, fact.asked
        status = self._all.ask('GET', f'/types/{kind}', None, _MEMBER).status
        # Another client may delete the type meanwhile.
        if kind in self._access and fact.stable and (value, asked) == (fact.value, fact.asked) \
                and status == (404 if value else 200):
            self._all.judge.violated(f'P4 access_stays: access to type {kind} is {value}, but '
                                     f'the request returned {status}')

    def _choose(self) -> None:
        kind = self._any()
        if kind is not None:
            self._change_default('PUT', {'default_type': {'volume_type': kind}}, {200: kind})

    def _unset(self) -> None:
        self._change_default('DELETE', None, {204: _NONE})

    def _change_default(self, method: str, body: Any, said: Mapping[int, str]) -> None:
        project = self._chance.choice(_PROJECTS)
        fact = self._defaults[project]
        asked = fact.begin()
        fact.end(asked, self._all.ask(method, f'/default-types/{project}', body), said)

    def _remove(self) -> None:
        kind = self._any()
        if kind is None:
            return
        facts = self._access.pop(kind)
        if self._all.ask('DELETE', f'/types/{kind}').status == 400:
            self._access[kind] = facts

    def _rows(self, table: sa.Table) -> list[Any]:
        with self._all.judge.looking() as database, database.reader() as connection:
            return list(connection.execute(table.select()))

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the access and the default types that differ from the last answers.

        A default type must not be deleted either.
        """
        there = {row.id for row in self._rows(models.volume_types) if not row.deleted}
        for project, default in self._stored_defaults().items():
            if default != _NONE and default not in there:
                yield f'P4 default_stays: type {default} is the default of {project}, but deleted'
            known = self._defaults[project]
            if known.stable and known.value != default:
                yield (f'P4 default_stays: {project} was given the default {known.value}, but has '
                       f'{default}')
        stored = self._stored_access()
        for kind, projects in self._access.items():
            for project, fact in projects.items():
                if fact.stable and fact.value != ((kind, project) in stored):
                    yield (f'P4 access_stays: access of {project} to type {kind} was answered '
                           f'{fact.value}, but is stored otherwise')

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Take the stored values as known."""
        stored = self._stored_access()
        self._access = {kind: {project: _Fact((kind, project) in stored) for project in _PROJECTS}
                        for kind in self._access}
        self._defaults = {project: _Fact(default)
                          for project, default in self._stored_defaults().items()}
        yield from ()

    def _stored_defaults(self) -> dict[str, str]:
        found = {row.project_id: row.volume_type_id
                 for row in self._rows(models.default_volume_types)}
        return {project: found.get(project, _NONE) for project in _PROJECTS}

    def _stored_access(self) -> set[tuple[str, str]]:
        return {(row.volume_type_id, row.project_id)
                for row in self._rows(models.volume_type_projects)}

    OPERATIONS = {
        'let use a type': (_let, 4),
        'forbid to use a type': (_forbid, 3),
        'use a type': (_use, 4),
        'choose a default type': (_choose, 4),
        'unset a default type': (_unset, 2),
        'remove a type': (_remove, 2),
    }


def _nowhere(client):
    """Create a type that no pool serves."""
    client.sure((200, 409), 'POST', '/types', {'volume_type': {
        'name': _PASSING, 'extra_specs': {'volume_backend_name': 'nowhere'}}})


def _refused_message(client, _):
    made = volumes.made(client, {'size': 1, 'volume_type': _PASSING})
    if made is None:
        return
    status, answer = client.ask('GET', f'/messages?resource_uuid={made}')
    if status == 200:
        for message in answer['messages']:
            client.ask('DELETE', f'/messages/{message["id"]}')


def _types(client, _):
    status, answer = client.ask('POST', '/types', {'volume_type': {'name': 'passing-1'}})
    if status != 200:
        return
    path = f'/types/{answer["volume_type"]["id"]}'
    client.ask('PUT', path, {'volume_type': {'name': 'passing-2'}})
    client.ask('POST', f'{path}/extra_specs', {'extra_specs': {'key': 'value'}})
    client.ask('DELETE', f'{path}/extra_specs/key')
    client.ask('POST', f'{path}/encryption', {'encryption': {
        'provider': 'luks', 'control_location': 'front-end', 'key_size': 256}})
    client.ask('PUT', f'{path}/encryption/provider', {'encryption': {'key_size': 512}})
    client.ask('DELETE', f'{path}/encryption/provider')
    _access(client, path)
    _limits(client, answer['volume_type']['id'])
    client.ask('DELETE', path)


def _access(client, path):
    client.ask('PUT', path, {'volume_type': {'is_public': False}})
    for action in ('addProjectAccess', 'removeProjectAccess'):
        client.ask('POST', f'{path}/action', {action: {'project': 'shop'}})
    client.ask('PUT', '/default-types/shop', {'default_type': {
        'volume_type': path.removeprefix('/types/')}})
    client.ask('DELETE', '/default-types/shop')


def _limits(client, kind):
    status, answer = client.ask('POST', '/qos-specs', {'qos_specs': {
        'name': _PASSING, 'consumer': 'front-end', 'total_iops_sec': '10'}})
    if status != 200:
        return
    path = f'/qos-specs/{answer["qos_specs"]["id"]}'
    client.ask('PUT', path, {'qos_specs': {'total_bytes_sec': '100'}})
    client.ask('GET', f'{path}/associate?vol_type_id={kind}')
    client.ask('GET', f'{path}/disassociate?vol_type_id={kind}')
    client.ask('PUT', f'{path}/delete_keys', {'keys': ['total_bytes_sec']})
    client.ask('DELETE', f'{path}?force=true')


def _clear(client):
    client.sure((204,), 'DELETE', '/default-types/shop')
    for noun, key, listed, forced in (('types', 'volume_types', '?is_public=None', ''),
                                      ('qos-specs', 'qos_specs', '', '?force=true')):
        for found in client.sure((200,), 'GET', f'/{noun}{listed}')[key]:
            if found['name'].startswith(_PASSING):
                client.sure((202, 404), 'DELETE', f'/{noun}/{found["id"]}{forced}')


NOUN = operations.Noun(
    'types',
    played=Types,
    operations=(
        operations.Operation('nowhere', _refused_message, _nowhere),
        operations.Operation('types', _types),
    ),
    clear=_clear,
    passed=('db.type_access.', 'db.default_types.'),
    seeds=((11, 300),),
)

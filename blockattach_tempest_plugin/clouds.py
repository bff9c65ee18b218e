"""Service under test: its callers, volume types and versions, and the created resources."""
import contextlib
import dataclasses
import re
import threading
import uuid
from typing import Any

import requests

from blockattach_tempest_plugin import client
from blockattach_tempest_plugin import clock

PREFIX = 'sanity-'
"""Prefix of the names of all resources that the test cases create."""
MULTIATTACH = '<is> True'
EXTENSION = 'Blockattach-API-Versions'
SECONDS = 120.0
TICK = 0.02
_VERSION = re.compile(r'/v3(/.*)?$')


class Unusable(Exception):
    """Error of a service against which the test cases cannot run. The text is the reason."""


@dataclasses.dataclass
class Cloud:
    """Service under test. Cases that need a missing caller (None) are skipped."""

    member: client.Client
    other: client.Client | None = None
    """Caller of another project without the admin role."""
    admin: client.Client | None = None
    service: client.Client | None = None
    """The member with a service token."""
    reader: client.Client | None = None
    """Read-only caller of the member's project."""
    compute: client.Client | None = None
    """Client of the member for the compute API of this project."""
    plain_type: str | None = None
    multiattach_type: str | None = None
    extension: tuple[int, int] | None = None
    """Newest version of the blockattach extension; None if it is not supported."""
    asks_servers: bool = True
    """True if a user may end the connection of a server that does not exist.

    In this case, the service asks Nova about the server, or its detach rule is off.
    """
    shows_differences: bool = False
    """True to run the cases of guarantees that only blockattach gives, against any service."""
    volumes: dict[str, client.Client] = dataclasses.field(default_factory=dict)
    """Created volumes that are not deleted yet, with the caller that created each."""
    own_type: str | None = None
    _guard: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @property
    def ender(self) -> client.Client:
        """Caller that deletes attachments: the service user if there is one, or the member."""
        return self.service or self.member

    def prepare(self) -> None:
        """Detect the features of the service, and create missing resources.

        :raises Unusable: the service does not respond, refuses the caller, or is not version 3
        :raises AssertionError: a volume cannot be created
        """
        try:
            listed = self.member.get('/volumes', None)
            found = self.member.get(root(self.member), None)
        except requests.RequestException as exc:
            raise Unusable(f'cannot reach the service: {exc}') from exc
        if listed.status != 200:
            raise Unusable(f'GET /volumes returned status {listed.status}: {listed.text[:200]}')
        self._versions(found)
        if self.admin is None and is_admin(self.member):
            self.admin = self.member
        # An administrator has access to all projects, so the cases of isolation would fail.
        if self.other is not None and is_admin(self.other):
            self.other = None
        self.multiattach_type = self.multiattach_type or self._multiattach_type()
        self.asks_servers = self._asks_servers()

    def a_volume(self, multiattach: bool = False, owner: client.Client | None = None,
                 **fields: Any) -> str:
        """Create a volume, wait until it is available, and return its ID.

        :raises AssertionError: the volume cannot be created
        """
        by = owner or self.member
        kind = self.multiattach_type if multiattach else self.plain_type
        if kind is not None:
            fields['volume_type'] = kind
        made = by.send('POST', '/volumes', {'volume': {
            'size': 1, 'name': f'{PREFIX}{uuid.uuid4().hex[:12]}', **fields}})
        if made.status != 202:
            raise AssertionError(f'failed to create a volume: {made.status} {made.text[:300]}')
        volume_id = str(made.body['volume']['id'])
        with self._guard:
            self.volumes[volume_id] = by
        self.wait_for(volume_id, 'available', by)
        return volume_id

    def wait_for(self, volume_id: str, status: str, caller: client.Client | None = None) -> None:
        """Wait until a volume has this status.

        :raises AssertionError: the volume does not get the status in time, or goes to an error
            status
        """
        found, deadline = '', clock.monotonic() + SECONDS
        while clock.monotonic() < deadline:
            shown = (caller or self.member).get(f'/volumes/{volume_id}')
            found = shown.body['volume']['status'] if shown.status == 200 else str(shown.status)
            if found == status or ('error' in found and 'error' not in status):
                break
            clock.pause(TICK)
        if found != status:
            raise AssertionError(f'volume {volume_id} has status {found} instead of {status}')

    def discard(self, volume_id: str) -> None:
        """Delete a volume, including its attachments.

        If three attempts fail, the volume stays in `volumes`.
        """
        by = self.volumes[volume_id]
        # A case can leave a volume in any status. A request that does not apply has no effect.
        for _ in range(3):
            for action in ('os-roll_detaching', 'os-unreserve'):
                by.act(volume_id, action)
            ender = self.ender if by is self.member else by
            listed = by.get(f'/attachments?volume_id={volume_id}')
            for one in listed.body['attachments'] if listed.status == 200 else ():
                ender.delete(one['id'])
            if by.send('DELETE', f'/volumes/{volume_id}').status in (202, 404):
                break
            if self.admin is not None:
                self.admin.act(volume_id, 'os-reset_status',
                               {'status': 'available', 'attach_status': 'detached'})
            clock.pause(TICK)
        else:
            return
        with self._guard:
            self.volumes.pop(volume_id, None)

    def close(self) -> list[str]:
        """Delete all created resources.

        :returns: names of the resources that could not be deleted
        """
        for volume_id in list(self.volumes):
            with contextlib.suppress(requests.RequestException):
                self.discard(volume_id)
        left = [f'volume {volume_id}' for volume_id in self.volumes]
        if self.own_type is not None and self.admin is not None:
            # A type in use cannot be deleted, and volumes are deleted asynchronously.
            deadline = clock.monotonic() + SECONDS
            path = f'/types/{self.own_type}'
            while (removed := self.admin.send('DELETE', path)).status not in (202, 404):
                if left or clock.monotonic() > deadline:
                    return [*left, f'volume type {self.own_type} ({removed.message})']
                clock.pause(TICK)
            self.own_type = None
        return left

    def _versions(self, answer: client.Answer) -> None:
        """Detect the supported versions from the version document."""
        announced = re.search(r'max=(\d+)\.(\d+)', answer.headers.get(EXTENSION, ''))
        if announced:
            self.extension = (int(announced[1]), int(announced[2]))
        numbers = [tuple(map(int, one['version'].split('.')))
                   for one in (answer.body or {}).get('versions', ())
                   if re.fullmatch(r'3\.\d+', one.get('version') or '')]
        if not numbers:
            raise Unusable('the endpoint does not announce version 3 of the Block Storage API')
        version = '.'.join(map(str, min(max(numbers), client.NEWEST)))
        for caller in (self.member, self.other, self.admin, self.service, self.reader):
            if caller is not None:
                caller.version = version

    def _multiattach_type(self) -> str | None:
        """Create a multiattach type as the administrator, or else find an existing type.

        :returns: ID of the type, or None if no type exists and none can be created
        """
        if self.admin is not None:
            made = self.admin.send('POST', '/types', {'volume_type': {
                'name': f'{PREFIX}{uuid.uuid4().hex[:12]}',
                'extra_specs': {'multiattach': MULTIATTACH}}})
            if made.status == 200:
                self.own_type = made.body['volume_type']['id']
                return self.own_type
        listed = self.member.get('/types')
        kinds = listed.body['volume_types'] if listed.status == 200 else ()
        return next((kind['id'] for kind in kinds
                     if (kind.get('extra_specs') or {}).get('multiattach') == MULTIATTACH), None)

    def _asks_servers(self) -> bool:
        # The server does not exist. If the service asks Nova, or if its detach rule is off, a user
        # may delete the attachment. Otherwise only a service may.
        volume_id = self.a_volume()
        made = self.member.create(volume_id, instance_uuid=str(uuid.uuid4()), connector={
            'initiator': f'iqn.2026-01.org.example:{PREFIX}probe', 'host': f'{PREFIX}probe'})
        ended = made.status == 200 and self.member.delete(
            made.body['attachment']['id']).status == 200
        self.discard(volume_id)
        return ended


def root(caller: client.Client) -> str:
    """Return the URL of the version document."""
    return _VERSION.sub('/v3/', caller.endpoint)


def is_admin(caller: client.Client) -> bool:
    """Return True if the caller has the rights of an administrator."""
    return caller.get('/os-services').status == 200

"""Legacy clients in the simulation, which use actions of volumes instead of attachments."""
from collections.abc import Mapping
from typing import Any

from lab.simulation import clients
from lab.simulation import operations
from lab.simulation import recording
from lab.simulation.nouns import attachments

_MAY_END_ANY = ('os-terminate_connection', 'os-detach', 'os-force_detach')


class Actions(clients.Played):
    """Actions that create and end attachments without their IDs."""

    @property
    def _attachments(self) -> attachments.Attachments:
        return self._all.of(attachments.Attachments)

    def asked(self, method: str, path: str, body: Any, headers: Mapping[str, str],
              ) -> clients.Answer | None:
        parts = path.strip('/').split('/')
        if parts[0] != 'volumes' or parts[-1] != 'action':
            return None
        (name, words), = body.items()
        known = self._attachments
        if name in _MAY_END_ANY:
            return known.volumes.end_any(name, words, parts[1])
        answer = self._all.ask('POST', path, body)
        if name == 'os-attach' and not 400 <= answer.status < 500:
            known.promised.forsake(parts[1], words['instance_uuid'])
        return answer

    def _hold(self) -> None:
        name = self._chance.choice(('os-reserve', 'os-unreserve', 'os-begin_detaching',
                                    'os-roll_detaching'))
        self._attachments.volumes.action(name, {}, self._attachments.volumes.any())

    def _connection(self) -> None:
        volumes = self._attachments.volumes
        volume_id = volumes.any()
        # os-terminate_connection may end any attachment of the volume, so that no promise about
        # the others remains. It is therefore rare.
        name = self._chance.choices(
            ('os-initialize_connection', 'os-terminate_connection'), (3, 1))[0]
        body = {'connector': clients.connector(self._attachments.host())}
        if name == 'os-terminate_connection':
            volumes.end_any(name, body, volume_id)
        else:
            volumes.action(name, body, volume_id)

    def _attach(self) -> None:
        known = self._attachments
        volume_id, server_id = known.volumes.any(), known.server()
        answer = known.volumes.action('os-attach', {
            'instance_uuid': server_id, 'mountpoint': '/dev/vdb', **known.mode()}, volume_id)
        if not 400 <= answer.status < 500:
            # The answer does not contain the ID of the attachment.
            known.promised.forsake(volume_id, server_id)

    def _detach(self) -> None:
        known = self._attachments
        name = self._chance.choice(('os-detach', 'os-detach', 'os-force_detach'))
        attachment_id = known.any()
        if attachment_id is None:
            return
        known.promised.end(attachment_id)
        known.changing('POST', f'/volumes/{known.known[attachment_id]}/action',
                       {name: {'attachment_id': attachment_id}}, attachment_id, None)

    OPERATIONS = {
        'hold': (_hold, 6),
        'connection': (_connection, 6),
        'os-attach': (_attach, 4),
        'os-detach': (_detach, 5),
    }


def _cycle(client, _):
    connector = {'connector': recording.connector(recording.GUEST)}
    client.act(client.plain, 'os-reserve')
    client.act(client.plain, 'os-initialize_connection', connector)
    client.act(client.plain, 'os-attach', {'instance_uuid': recording.instance(recording.GUEST),
                                           'mountpoint': '/dev/vdb'})
    for action in ('os-begin_detaching', 'os-roll_detaching', 'os-begin_detaching'):
        client.act(client.plain, action)
    client.act(client.plain, 'os-terminate_connection', connector)
    client.act(client.plain, 'os-detach')
    client.act(client.plain, 'os-reserve')
    client.act(client.plain, 'os-unreserve')


def _clear(client):
    path = f'/volumes/{client.plain}/action'
    client.sure((202, 400), 'POST', path, {'os-unreserve': {}})
    client.sure((202, 400), 'POST', path, {'os-roll_detaching': {}})


NOUN = operations.Noun(
    'legacy',
    played=Actions,
    operations=(operations.Operation('legacy', _cycle),),
    clear=_clear,
)

"""What is done while a process dies: each operation that there is a road to, over the API, over
the bus or by blockattach-manage.

`prepare` makes what the operation needs and is not disturbed; `act` is, so each of its requests
may end in any way. Whatever is left is removed by `Client.clear`.
"""
import collections
import contextlib
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from blockattach.tests.simulation import recording

MANAGER, SCHEDULER, API, CONTROL = 'volume-1', 'scheduler-1', 'api-1', 'control-1'
MANAGE, CONSUMER = 'manage', 'consumer'
PROJECT = '00000000000000000000000000000002'
USER = '00000000000000000000000000000001'


class Operation(NamedTuple):
    """One of them.

    ``core``: what the promises are about: a process is killed at each place that it passes, and
    elsewhere only at those that no other operation passes. ``hindered``: places at which a process
    fails all the while, besides. `undo` comes after all, and is not disturbed.
    ``others``: the manager dies in it anyway. ``again``: how a command may end that is repeated
    after its death.
    """

    name: str
    act: Callable[[recording.Client, Any], object]
    prepare: Callable[[recording.Client], Any] = lambda client: None
    core: bool = False
    hindered: tuple[tuple[str, str], ...] = ()
    undo: Callable[[recording.Client], object] = lambda client: None
    others: bool = False
    again: tuple[int, ...] = (0,)


def _create(client, _):
    _made(client, {'size': 1})


def _made(client, wanted):
    """A volume that is there, or could not be made; None: the process that was asked has gone."""
    status, answer = client.ask('POST', '/volumes', {'volume': wanted})
    if status == 202:
        client.settled(answer['volume']['id'])
        return answer['volume']['id']
    return None


def _reserve(client, _):
    client.ask('POST', '/attachments', recording.wish(client.shared, connected=False))


def _attach(client, _):
    client.ask('POST', '/attachments', recording.wish(client.shared))


def _reserved(client):
    return client.sure((200,), 'POST', '/attachments',
                       recording.wish(client.shared, connected=False))['attachment']['id']


def _connect(client, made):
    client.ask('PUT', f'/attachments/{made}',
               {'attachment': {'connector': recording.connector(recording.GUEST)}})


def _complete(client, made):
    client.ask('POST', f'/attachments/{made}/action', {'os-complete': None})


def _detach(client, made):
    client.ask('DELETE', f'/attachments/{made}')


def _force_detach(client, made):
    client.act(client.shared, 'os-force_detach', {
        'attachment_id': made, 'connector': recording.connector(recording.GUEST)})


def _delete(client, made):
    client.ask('DELETE', f'/volumes/{made}')
    client.settled(made)


def _read_only(client, _):
    client.ask('POST', '/attachments', recording.wish(client.shared, mode='ro'))


def _writer_and_reader(client):
    """One host that reads by one attachment and writes by another."""
    client.attach(client.shared, mode='ro')
    return client.attach(client.shared, mode='rw')


def _legacy(client, _):
    """The calls of clients that know no attachments."""
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


def _command(client, told):
    """Run a process to its end; its exit status."""
    return client.run(*told)


def _consume(client):
    """A consumer as Nova would be one: it attaches, looks and detaches."""
    return (CONSUMER, PROJECT, USER, client.shared,
            recording.instance(recording.GUEST))


def _manage(*arguments):
    return lambda client: (MANAGE, *arguments)


def _derive(client):
    return MANAGE, 'attachments', 'derive', client.shared


def _remove_service(client):
    client.cloud.forget_service('gone@gone')
    return MANAGE, 'service', 'remove', 'cinder-volume', 'gone@gone'


def _purge(client):
    """There is something to be purged."""
    made = client.volume()
    client.sure((202,), 'DELETE', f'/volumes/{made}')
    client.settled(made)
    return MANAGE, 'db', 'purge', '0'


def _return(client, _):
    """The manager dies and comes back: others hear of it."""
    client.cloud.kill(MANAGER)
    client.cloud.begin(MANAGER)
    client.cloud.wait_ready([MANAGER])


def _nowhere(client):
    """A type of which no pool has anything."""
    client.sure((200, 409), 'POST', '/types', {'volume_type': {
        'name': 'passing', 'extra_specs': {'volume_backend_name': 'nowhere'}}})


def _refused_message(client, _):
    made = _made(client, {'size': 1, 'volume_type': 'passing'})
    if made is None:
        return
    status, answer = client.ask('GET', f'/messages?resource_uuid={made}')
    if status == 200:
        for message in answer['messages']:
            client.ask('DELETE', f'/messages/{message["id"]}')


def _transfers(client, made):
    """One offer that is taken back, then one that is accepted."""
    for accepted in (False, True):
        status, answer = client.ask('POST', '/volume-transfers', {'transfer': {'volume_id': made}})
        if status != 202:
            continue
        path = f'/volume-transfers/{answer["transfer"]["id"]}'
        if accepted:
            key = answer['transfer']['auth_key']
            client.ask('POST', f'{path}/accept', {'accept': {'auth_key': key}})
        else:
            client.ask('DELETE', path)


def _settings(client, made):
    client.act(made, 'os-update_readonly_flag', {'readonly': True})
    client.act(made, 'os-reset_status', {'status': 'error'})


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
    _limits(client, answer['volume_type']['id'])
    client.ask('DELETE', path)


def _limits(client, kind):
    status, answer = client.ask('POST', '/qos-specs', {'qos_specs': {
        'name': 'passing', 'consumer': 'front-end', 'total_iops_sec': '10'}})
    if status != 200:
        return
    path = f'/qos-specs/{answer["qos_specs"]["id"]}'
    client.ask('PUT', path, {'qos_specs': {'total_bytes_sec': '100'}})
    client.ask('GET', f'{path}/associate?vol_type_id={kind}')
    client.ask('GET', f'{path}/disassociate?vol_type_id={kind}')
    client.ask('PUT', f'{path}/delete_keys', {'keys': ['total_bytes_sec']})
    client.ask('DELETE', f'{path}?force=true')


def _services(client, _):
    named = {'binary': 'cinder-scheduler', 'host': client.cloud.SCHEDULER_HOST}
    client.ask('PUT', '/os-services/disable', named)
    client.ask('PUT', '/os-services/enable', named)
    backend = {'host': client.cloud.served(MANAGER)}
    client.ask('PUT', '/os-services/freeze', backend)
    client.ask('PUT', '/os-services/thaw', backend)


def _usable(client):
    """As they are afterwards, whatever was interrupted."""
    client.sure((200,), 'PUT', '/os-services/enable',
                {'binary': 'cinder-scheduler', 'host': client.cloud.SCHEDULER_HOST})
    client.sure((200,), 'PUT', '/os-services/thaw',
                {'host': client.cloud.served(MANAGER)})


def _logs(client, _):
    asked = {'binary': '*', 'server': None, 'prefix': 'sqlalchemy'}
    client.ask('PUT', '/os-services/get-log', asked)
    client.ask('PUT', '/os-services/set-log', {**asked, 'level': 'WARNING'})


def _idle(client, _):
    """What comes round by itself."""


_HALF_DONE = ((MANAGER, 'volume.volumes.before_create=raise*1'),)
_FALLS_OVER = ((MANAGER, 'backend.target.grant.before=raise*1'),)
_MANAGER_REFUSES = (
    (MANAGER, 'backend.store.create.before=refuse'),
    (MANAGER, 'backend.store.delete.before=refuse'),
    (MANAGER, 'backend.target.grant.before=refuse'),
    (MANAGER, 'backend.target.revoke.before=refuse'))


def _volume(client):
    return client.volume()


def _attached(client):
    return client.attached(client.shared)


OPERATIONS = (
    Operation('create', _create, core=True),
    Operation('reserve', _reserve, core=True),
    Operation('attach', _attach, core=True),
    Operation('connect', _connect, _reserved, core=True),
    Operation('complete', _complete, lambda client: client.attach(client.shared), core=True),
    Operation('detach', _detach, _attached, core=True),
    Operation('force-detach', _force_detach, _attached, core=True),
    Operation('delete', _delete, _volume, core=True),
    Operation('read-only', _read_only),
    Operation('narrow', _detach, _writer_and_reader),
    Operation('legacy', _legacy),
    Operation('consumer', _command, _consume),
    Operation('half done', _create, hindered=_HALF_DONE),
    Operation('fallen over', _attach, hindered=_FALLS_OVER),
    Operation('refused create', _create, hindered=_MANAGER_REFUSES[:1]),
    Operation('refused delete', _delete, _volume, hindered=_MANAGER_REFUSES[1:2]),
    Operation('refused attach', _attach, hindered=_MANAGER_REFUSES[2:3]),
    Operation('refused detach', _detach, _attached, hindered=_MANAGER_REFUSES[3:]),
    Operation('nowhere', _refused_message, _nowhere),
    Operation('settings', _settings, _volume),
    Operation('transfers', _transfers, _volume),
    Operation('types', _types),
    Operation('services', _services, undo=_usable),
    Operation('logs', _logs),
    Operation('derive', _command, _derive),
    Operation('derive counts', _command, _manage('attachments', 'derive', '--counts')),
    Operation('purge', _command, _purge),
    Operation('remove service', _command, _remove_service, again=(0, 1)),
    Operation('rotate', _command, _manage('secrets', 'rotate')),
    Operation('return', _return, others=True),
    Operation('idle', _idle),
)
"""In the order in which a place is given to the first that passes it."""

def named(name):
    """One of them."""
    [found] = [one for one in OPERATIONS if one.name == name]
    return found


START, STOP = 'start', 'stop'
"""Of each process, by a supervisor: no operation of a client."""


@contextlib.contextmanager
def hindered(client, operation, *armed):
    """While it lasts, processes fail as the operation wants it, and as is said.

    :param armed: processes, each with PLACE=ACTION
    """
    told = collections.defaultdict(list)
    for name, text in (*operation.hindered, *armed):
        told[name].append(text)
    for name, texts in told.items():
        client.cloud.switches[name].set(*texts)
    try:
        yield
    finally:
        for name in told:
            client.cloud.switches[name].set()

"""Services in the simulation: their periodic tasks, and the commands of operators."""
import datetime

from blockattach.cmd import manage_service
from blockattach.storage.db import purging
from blockattach.storage.db.attachments import key_rotation
from lab.simulation import operations

DOWN_SECONDS = 30.0
_GONE, _CLUSTER = 'gone@gone', 'cluster@gone'
_REMOVE = (operations.MANAGE, 'service', 'remove', 'cinder-volume', _GONE)


def _services(client, _):
    named = {'binary': 'cinder-scheduler', 'host': client.cloud.SCHEDULER_HOST}
    client.ask('PUT', '/os-services/disable', named)
    client.ask('PUT', '/os-services/enable', named)
    backend = {'host': client.cloud.served(operations.MANAGER)}
    client.ask('PUT', '/os-services/freeze', backend)
    client.ask('PUT', '/os-services/thaw', backend)


def _usable(client):
    """Enable the services again, whatever was interrupted."""
    client.sure((200,), 'PUT', '/os-services/enable',
                {'binary': 'cinder-scheduler', 'host': client.cloud.SCHEDULER_HOST})
    client.sure((200,), 'PUT', '/os-services/thaw',
                {'host': client.cloud.served(operations.MANAGER)})


def _logs(client, _):
    asked = {'binary': '*', 'server': None, 'prefix': 'sqlalchemy'}
    client.ask('PUT', '/os-services/get-log', asked)
    client.ask('PUT', '/os-services/set-log', {**asked, 'level': 'WARNING'})


def _forgotten(client):
    client.cloud.forget_service(_GONE)
    return _REMOVE


def _member(client):
    """Register a cluster whose only member has gone, and return its name."""
    client.cloud.forget_service(_GONE, _CLUSTER)
    return _CLUSTER


def _cluster(client, name):
    for word in ('disable', 'enable'):
        client.ask('PUT', f'/clusters/{word}', {'name': name})


def _without(client):
    client.run(*_REMOVE)


def _deleted(client):
    """Delete a volume, whose row the returned command purges."""
    made = client.volume()
    client.sure((202,), 'DELETE', f'/volumes/{made}')
    client.settled(made)
    return operations.MANAGE, 'db', 'purge', '0'


def _return(client, _):
    """Kill and restart the manager, which other processes notice."""
    client.cloud.kill(operations.MANAGER)
    client.cloud.begin(operations.MANAGER)
    client.cloud.wait_ready([operations.MANAGER])


def _idle(client, _):
    """Do nothing, so that only periodic tasks run."""


def _purge(walk, process, *arguments):
    purging.purge(walk.database(process), datetime.timedelta(days=0), None, False, purging.BATCH)


def _remove(walk, process, *arguments):
    _, _, binary, host = arguments
    manage_service.forget(walk.database(process), binary, host, DOWN_SECONDS)


def _rotate(walk, process, *arguments):
    database = walk.database(process)
    with database.sealer.alone():
        key_rotation.rotate(database)


NOUN = operations.Noun(
    'services',
    operations=(
        operations.Operation('services', _services, undo=_usable),
        operations.Operation('clusters', _cluster, _member, undo=_without),
        operations.Operation('logs', _logs),
        operations.Operation('purge', operations.command, _deleted),
        operations.Operation('remove service', operations.command, _forgotten, again=(0, 1)),
        operations.Operation('rotate', operations.command,
                             operations.manage('secrets', 'rotate')),
        operations.Operation('return', _return, others=True),
        operations.Operation('idle', _idle),
    ),
    commands={('db', 'purge'): _purge, ('service', 'remove'): _remove,
              ('secrets', 'rotate'): _rotate},
)

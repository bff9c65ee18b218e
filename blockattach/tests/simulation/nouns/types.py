"""Volume types, their QoS and encryption; and messages, of a volume whose type nobody has."""
from blockattach.tests.simulation import operations
from blockattach.tests.simulation.nouns import volumes

_PASSING = 'passing'


def _nowhere(client):
    """A type of which no pool has anything."""
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
    _limits(client, answer['volume_type']['id'])
    client.ask('DELETE', path)


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
    for noun, key in (('types', 'volume_types'), ('qos-specs', 'qos_specs')):
        for found in client.sure((200,), 'GET', f'/{noun}')[key]:
            if found['name'].startswith(_PASSING):
                client.sure((202, 404), 'DELETE', f'/{noun}/{found["id"]}'
                            + ('?force=true' if key == 'qos_specs' else ''))


NOUN = operations.Noun(
    'types',
    operations=(
        operations.Operation('nowhere', _refused_message, _nowhere),
        operations.Operation('types', _types),
    ),
    clear=_clear,
)

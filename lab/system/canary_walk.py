"""Requests to the operations that return no secret. Texts of clients serve as canaries.

A text of a client may be returned to callers with access to the volume, and is stored in the
database. It must not be on the bus or in a log, except for the log of two libraries at level
DEBUG. Credentials must not be there either.
"""
import urllib.parse
import uuid

from blockattach.storage.api.resources import not_offered
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.functional import base
from lab.system import canaries
from lab.system import processes

SECONDS = 180
CLUSTER = 'storage@walk'
REFUSED = {'PUT /os-services/failover', 'PUT /os-services/failover_host',
           'POST /volumes/{id}/action (os-extend_volume_completion)',
           'POST /volumes/{id}/action (os-migrate_volume_completion)',
           *(row.name for row in not_offered.OPERATIONS if row.answer is None)}
"""Operations that are refused to all callers."""


def of_metadata(text):
    """Return the requests for the metadata of a volume or a snapshot. The text remains stored."""
    return (('POST', '/metadata', {'metadata': {'owner': text, 'other': 'one'}}),
            ('GET', '/metadata', None),
            ('PUT', '/metadata/other', {'meta': {'other': 'another'}}),
            ('GET', '/metadata/other', None),
            ('DELETE', '/metadata/other', None),
            ('PUT', '/metadata', {'metadata': {'owner': text}}))


def of_access(project):
    """Return the requests for the access to a private volume type."""
    return (('POST', '/action', {'addProjectAccess': {'project': project}}),
            ('GET', '/os-volume-type-access', None),
            ('POST', '/action', {'removeProjectAccess': {'project': project}}))


def of_default(project):
    """Return the requests for the default volume type of a project."""
    path = f'/default-types/{project}'
    return (('PUT', path, {'default_type': {'volume_type': 'private'}}),
            ('GET', path, None), ('GET', '/default-types', None), ('DELETE', path, None))


def of_operators(backend):
    """Return the requests of operators."""
    unlimited = {'quota_class_set': {'volumes': -1}}
    return (('GET', '/os-hosts', None), ('GET', f'/os-hosts/{backend}', None),
            ('GET', '/os-availability-zone', None), ('GET', '/extensions', None),
            ('GET', '/extensions/os-services', None),
            ('GET', '/resource_filters?resource=volume', None),
            ('PUT', '/os-quota-class-sets/default', unlimited),
            ('GET', '/os-quota-class-sets/default', None),
            ('POST', '/workers/cleanup', {'host': backend}))


def of_clusters(text):
    """Return the requests for clusters, which leave the cluster disabled with a reason."""
    return (('GET', '/clusters', None), ('GET', '/clusters/detail', None),
            ('PUT', '/clusters/enable', {'name': CLUSTER}),
            ('PUT', '/clusters/disable', {'name': CLUSTER, 'disabled_reason': text}),
            ('GET', f'/clusters/{CLUSTER}', None))


class Walk:
    """Requests of an administrator.

    :ivar test: test case that sends the requests and registers the canaries
    """

    def __init__(self, test, images):
        """
        :param images: stand-in of Glance that the service uses
        """
        self.test = test
        self._images = images

    def walk(self):
        """Send all requests."""
        self.types()
        volume_id = self.volumes()
        self.snapshots(volume_id)
        self.managing()
        self.play('', of_operators(processes.BACKEND))
        self.refused()
        self.clusters()

    def text(self, name, *places):
        """Return the text of a client, and register the places that may contain the text."""
        return self.test.remember(f'text: {name}', canaries.secret(), canaries.CLIENTS, *places,
                                  tolerated=frozenset((canaries.LIBRARIES,)))

    def play(self, path, rows):
        """Send requests that must succeed."""
        for method, below, body in rows:
            self.test.done(method, path + below, body)

    def act(self, path, action, value=None):
        """Execute an action on a volume or a snapshot."""
        return self.test.done('POST', f'{path}/action', {action: value})

    def shown(self, path):
        """Return a resource, or None if it does not exist."""
        status, answer = self.test.ask('GET', path)
        return next(iter(answer.values())) if status == 200 else None

    def settle(self, path, **expected):
        """Wait until a resource is available and has the expected values."""
        def reached():
            found = self.shown(path)
            return found and {'status': 'available', **expected}.items() <= found.items() and found

        found = base.wait_for(reached, SECONDS)
        self.test.assertTrue(found, (path, self.shown(path)))
        return found

    def gone(self, path):
        """Wait until a resource does not exist."""
        self.test.assertTrue(base.wait_for(lambda: self.shown(path) is None, SECONDS), path)

    def types(self):
        """Create and use a private volume type."""
        made = self.test.done('POST', '/types', {'volume_type': {
            'name': 'private', 'os-volume-type-access:is_public': False}})['volume_type']
        self.play(f'/types/{made["id"]}', of_access(self.test.project))
        self.play('', of_default(self.test.project))

    def volumes(self):
        """Change a volume in all ways, force-delete another one, and return the id of the first.
        """
        volume_id = self.test.volume()
        path = f'/volumes/{volume_id}'
        self.test.done('PUT', path, {'volume': {
            'description': self.text('description of a volume', canaries.DATABASE)}})
        self.play(path, of_metadata(self.text('metadata of a volume', canaries.DATABASE)))
        self.contents(path)
        self.places(path)
        text = self.text('metadata of an image', canaries.DATABASE)
        self.act(path, 'os-set_image_metadata', {'metadata': {
            'os_version': text, 'os_type': 'linux'}})
        self.act(path, 'os-show_image_metadata')
        self.act(path, 'os-unset_image_metadata', {'key': 'os_type'})
        self.act(path, 'os-set_bootable', {'bootable': True})
        other = f'/volumes/{self.test.volume()}'
        self.act(other, 'os-force_delete')
        self.gone(other)
        return volume_id

    def contents(self, path):
        """Reimage a volume, and upload its content as an image. The name is only sent to Glance.
        """
        self.act(path, 'os-reimage', {'image_id': self._images.add(
            bytes(512), name=self.text('name of an image', canaries.DATABASE))})
        self.settle(path)
        self.act(path, 'os-volume_upload_image', {
            'image_name': self.text('name of an upload'), 'disk_format': 'raw',
            'container_format': 'bare'})
        self.settle(path)

    def places(self, path):
        """Extend, retype and migrate a volume to the other backend."""
        kind = self.test.done('POST', '/types', {'volume_type': {'name': 'later'}})['volume_type']
        self.act(path, 'os-extend', {'new_size': 2})
        self.settle(path, size=2)
        self.act(path, 'os-retype', {'new_type': kind['id'], 'migration_policy': 'never'})
        here = self.settle(path, volume_type='later')['os-vol-host-attr:host']
        there, = {pool['name'] for pool in self.test.done('GET', '/scheduler-stats/get_pools')[
            'pools']} - {here}
        self.act(path, 'os-migrate_volume', {'host': there})
        self.settle(path, **{'os-vol-host-attr:host': there, 'migration_status': 'success'})

    def snapshots(self, volume_id):
        """Create three snapshots: one is kept, one deleted, one used for a revert and
        force-deleted.
        """
        first, second, third = (self.snapshot(volume_id, name=self.text(
            f'name of snapshot {number}', canaries.DATABASE)) for number in range(3))
        self.test.done('PUT', first, {'snapshot': {
            'description': self.text('description of a snapshot', canaries.DATABASE)}})
        self.play(first, of_metadata(self.text('metadata of a snapshot', canaries.DATABASE)))
        for path in ('/snapshots', '/snapshots/detail', first):
            self.test.done('GET', path)
        self.act(f'/volumes/{volume_id}', 'revert', {'snapshot_id': third.rpartition('/')[2]})
        self.settle(f'/volumes/{volume_id}')
        self.settle(third)
        self.act(third, 'os-reset_status', {'status': 'creating'})
        self.act(third, 'os-update_snapshot_status', {'status': 'available', 'progress': '100%'})
        self.act(third, 'os-force_delete')
        self.test.done('DELETE', second)
        for path in (second, third):
            self.gone(path)

    def snapshot(self, volume_id, **wanted):
        """Create a snapshot and return its path."""
        made = self.test.done('POST', '/snapshots', {'snapshot': {
            'volume_id': volume_id, **wanted}})['snapshot']
        path = f'/snapshots/{made["id"]}'
        self.settle(path)
        return path

    def managing(self):
        """Unmanage and manage a snapshot and then its volume, with both paths of the API."""
        volume_id = self.test.volume()
        volume = f'/volumes/{volume_id}'
        host = self.shown(volume)['os-vol-host-attr:host']
        snapshot = self.snapshot(volume_id)
        for path in ('/manageable_snapshots', '/os-snapshot-manage'):
            found = self.given_up(snapshot, path, host)
            snapshot = self.taken_back(path, 'snapshot', volume_id=volume_id, ref=found)
        self.test.done('DELETE', snapshot)
        self.gone(snapshot)
        for path in ('/manageable_volumes', '/os-volume-manage'):
            found = self.given_up(volume, path, host)
            volume = self.taken_back(path, 'volume', host=host, ref=found)

    def given_up(self, one, path, host):
        """Unmanage a resource and return its reference on the backend."""
        self.act(one, 'os-unmanage', {})
        self.gone(one)
        host = urllib.parse.quote(host)
        for part in ('/detail', ''):
            listed, = self.test.done('GET', f'{path}{part}?host={host}').values()
        reference, = (found['reference'] for found in listed if found['safe_to_manage'])
        return reference

    def taken_back(self, path, noun, **wanted):
        """Manage a resource of the backend again and return its path."""
        name = self.text(f'name of what is taken back by {path}', canaries.DATABASE)
        made = self.test.done('POST', path, {noun: {**wanted, 'name': name}})
        found = f'/{noun}s/{made[noun]["id"]}'
        self.settle(found)
        return found

    def refused(self):
        """Send the requests of features that are not offered. Only their lists succeed."""
        for row in not_offered.OPERATIONS:
            if row.answer is not None:
                self.test.done(row.method, row.path)
                continue
            noun = row.path.split('/')[1].removesuffix('s')
            status, said = self.test.ask(
                row.method, row.path.format(id=uuid.uuid4()), {noun: {
                    'name': self.text(row.name)}} if row.method == 'POST' else None)
            self.test.assertIn(status, (400, 404), (row.name, said))
        volume_id = self.test.volume()
        for method, path, body in (
                ('PUT', '/os-services/failover_host', {
                    'host': processes.BACKEND, 'backend_id': self.text('replica of a host')}),
                ('PUT', '/os-services/failover', {
                    'host': processes.BACKEND, 'backend_id': self.text('replica')}),
                ('POST', f'/volumes/{volume_id}/action', {
                    'os-extend_volume_completion': {'error': False}}),
                ('POST', f'/volumes/{volume_id}/action', {
                    'os-migrate_volume_completion': {'new_volume': volume_id}})):
            status, said = self.test.ask(method, path, body)
            self.test.assertEqual(400, status, (path, body, said))

    def clusters(self):
        """Register a cluster in the database, as the services of this cloud are in no cluster."""
        services.register(self.test.rows.database, binaries.VOLUME, CLUSTER, 'nova', 'x',
                          cluster=CLUSTER)
        self.test.done('PUT', '/os-services/disable-log-reason', {
            'binary': binaries.VOLUME, 'host': CLUSTER,
            'disabled_reason': self.text('why a service is not used, until it is used again')})
        self.play('', of_clusters(self.text('why a cluster is not used', canaries.DATABASE)))

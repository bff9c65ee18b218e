"""Base class of tests of volume actions."""
from blockattach.storage.db.attachments import attachment_queries
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

RW = 'rw'
RO = 'ro'


class ActionsTestCase(base.ApiTestCase):

    def act(self, volume_id, action, value=None, persona=None, version=None):
        """Send an action; without a version, as clients of old do."""
        return (persona or self.http.as_member).post(
            f'/volumes/{volume_id}/action', {action: value}, version=version)

    def done(self, volume_id, action, value=None, persona=None):
        """An action that is accepted, and says nothing."""
        reply = self.act(volume_id, action, value, persona)
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)

    def initialize(self, volume_id, connector=None):
        """What os-initialize_connection answers."""
        reply = self.act(volume_id, 'os-initialize_connection',
                         {'connector': connector or make.connector()})
        self.assert_status(200, reply)
        self.assertEqual({'connection_info'}, reply.body.keys())
        return reply.body['connection_info']

    def attach(self, volume_id, instance_uuid=base.SERVER, **more):
        self.done(volume_id, 'os-attach',
                  {'instance_uuid': instance_uuid, 'mountpoint': '/dev/vdb', **more})

    def status(self, volume_id):
        return self.shown(volume_id)['status']

    def servers(self, volume_id):
        """Which servers the volume's own view names, in order."""
        return [one['server_id'] for one in self.shown(volume_id)['attachments']]

    def listed(self):
        """Every attachment that clients see, in full."""
        return self.http.as_member.get('/attachments/detail').body['attachments']

    def rows(self, volume_id):
        """Every live row, those that no client sees as well."""
        return attachment_queries.of_volume(self.http.database, volume_id, with_legacy=True)

    def grants(self, volume_id):
        """The grants of the target: initiators and modes."""
        return {grant.initiator: str(grant.mode)
                for export in self.http.manager.backend.fake_target.exports()
                if export.volume_id == volume_id for grant in export.grants}

    def fixture(self, **arguments):
        """Another API in place of the usual one."""
        self.http = http.ApiFixture(**arguments)
        self.addCleanup(self.http.close)

"""Base class of tests of volume actions."""
from blockattach.storage.db.attachments import attachment_queries
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

RW = 'rw'
RO = 'ro'


class ActionsTestCase(base.ApiTestCase):

    def act(self, volume_id, action, value=None, persona=None, version=None):
        """Send an action, by default without a version as legacy clients do."""
        return (persona or self.http.as_member).post(
            f'/volumes/{volume_id}/action', {action: value}, version=version)

    def done(self, volume_id, action, value=None, persona=None):
        """Send an action, and check for 202 and an empty body."""
        reply = self.act(volume_id, action, value, persona)
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)

    def initialize(self, volume_id, connector=None):
        """Return the connection info of os-initialize_connection."""
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
        """Return the servers in the attachments of the shown volume, in their order."""
        return [one['server_id'] for one in self.shown(volume_id)['attachments']]

    def listed(self):
        return self.http.as_member.get('/attachments/detail').body['attachments']

    def rows(self, volume_id):
        """Return the live attachment rows of a volume, including legacy ones that no client sees.
        """
        return attachment_queries.of_volume(self.http.database, volume_id, with_legacy=True)

    def grants(self, volume_id):
        """Return the modes of the target's grants of a volume, by initiator."""
        return {grant.initiator: str(grant.mode)
                for export in self.http.manager.backend.fake_target.exports()
                if export.volume_id == volume_id for grant in export.grants}

    def fixture(self, **arguments):
        """Replace the API by a new one with these arguments."""
        self.http = http.ApiFixture(**arguments)
        self.addCleanup(self.http.close)

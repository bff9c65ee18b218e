"""Test cases of attachments of servers: moves by Nova, and the detach rule (CVE-2023-2088)."""
import uuid
from typing import Any

from blockattach_tempest_plugin import client
from blockattach_tempest_plugin import clock
from blockattach_tempest_plugin import clouds
from blockattach_tempest_plugin.cases import base

REFUSED = (409, 500, 503)
"""Status codes of a rejected detach.

409 means that Nova reported the server as a user of the volume. The other codes mean that Nova
could not be asked.
"""


class ServerMoves(base.Cases):
    """Cases of a server that temporarily has attachments on two hosts."""

    def setUp(self) -> None:
        """Skip the test if no caller may end the connection of a server afterwards."""
        super().setUp()
        self.needs_servers()

    def test_volume_of_a_server_is_connected_to_a_second_host(self) -> None:
        volume, server = self.volume(), base.server()
        self.attach(volume, 'one', instance_uuid=server)
        self.connect(volume, 'two', instance_uuid=server)
        self.assertEqual(['attached', 'attaching'], self.states(volume))

    def test_deletion_of_the_source_attachment_keeps_the_target_attachment(self) -> None:
        volume, server = self.volume(), base.server()
        source = self.attach(volume, 'one', instance_uuid=server)
        target = self.attach(volume, 'two', instance_uuid=server)
        self.assertEqual([target], [one['id'] for one in self.end(source)])
        self.has_status(volume, 'in-use')

    def test_deletion_of_the_target_attachment_keeps_the_source_attachment(self) -> None:
        volume, server = self.volume(), base.server()
        source = self.attach(volume, 'one', instance_uuid=server)
        self.end(self.connect(volume, 'two', instance_uuid=server))
        self.assertEqual('attached', self.shown(source)['status'])
        self.has_status(volume, 'in-use')

    def test_reserved_target_is_completed_after_deletion_of_the_source(self) -> None:
        volume, server = self.volume(), base.server()
        source = self.attach(volume, 'one', instance_uuid=server)
        # In a cold migration, Nova reserves the volume before it disconnects the source host.
        target = self.reserve(volume, instance_uuid=server)
        self.end(source)
        self.answered(self.api.update(target, base.connector('two')))
        self.answered(self.api.complete(target), 204)
        self.has_status(volume, 'in-use')

    def test_volume_of_a_server_is_not_reserved_for_another_server(self) -> None:
        volume = self.volume()
        self.attach(volume, 'one', instance_uuid=base.server())
        self.refused(self.api.create(volume, instance_uuid=base.server()), 400)

    def test_volume_shows_the_server_id(self) -> None:
        volume, server = self.volume(), base.server()
        self.attach(volume, instance_uuid=server)
        self.assertEqual(server, self.shown_volume(volume)['attachments'][0]['server_id'])


class ServiceTokens(base.Cases):
    """Cases of requests on a server's volume that are allowed only to services."""

    def setUp(self) -> None:
        """Skip the test if there is no service user, which `end` and the cleanup also use."""
        super().setUp()
        self.service = self.needs(self.cloud.service, 'service user')

    def used(self) -> tuple[str, str]:
        """Create a volume that a server uses, and return the IDs of the volume and the attachment.

        Skip the test if users may delete such an attachment.
        """
        if self.cloud.asks_servers:
            self.skipTest('users can delete the attachment of a server that does not exist, '
                          'because Nova is asked, or the detach rule is off')
        volume = self.volume()
        return volume, self.attach(volume, instance_uuid=base.server())

    def refuses(self, answer: Any, volume: str) -> None:
        """Assert that a request is refused, and that nothing has changed."""
        self.assertIn(answer.status, REFUSED, answer.text)
        self.assertEqual(['attached'], self.states(volume))
        self.has_status(volume, 'in-use')

    def test_user_cannot_delete_the_attachment_of_a_server(self) -> None:
        volume, attachment = self.used()
        self.refuses(self.api.delete(attachment), volume)

    def test_user_cannot_detach_the_volume_of_a_server(self) -> None:
        volume, _ = self.used()
        self.refuses(self.api.act(volume, 'os-detach', {}), volume)

    def test_user_cannot_terminate_the_connection_of_a_server(self) -> None:
        volume, _ = self.used()
        self.refuses(self.api.act(volume, 'os-terminate_connection',
                                  {'connector': base.connector()}), volume)

    def test_administrator_cannot_delete_the_attachment_of_a_server(self) -> None:
        admin = self.needs_admin()
        volume, attachment = self.used()
        # Only a service token exempts a caller from the rule, not a role of the user.
        self.refuses(admin.delete(attachment), volume)

    def test_service_can_delete_the_attachment_of_a_server(self) -> None:
        volume, attachment = self.used()
        self.answered(self.service.delete(attachment))
        self.has_status(volume, 'available')

    def test_service_can_detach_the_volume_of_a_server(self) -> None:
        volume, attachment = self.used()
        self.answered(self.service.act(volume, 'os-detach', {'attachment_id': attachment}), 202)
        self.has_status(volume, 'available')

    def test_user_can_delete_the_reserved_attachment_of_a_server(self) -> None:
        # The rule protects only attachments that have a server and connection information.
        attachment = self.reserve(self.volume(), instance_uuid=base.server())
        self.answered(self.api.delete(attachment))

    def test_user_can_delete_an_attachment_without_a_server(self) -> None:
        self.answered(self.api.delete(self.attach(self.volume())))

    def test_detach_by_a_service_requires_an_id_if_there_are_two_attachments(self) -> None:
        volume = self.shared_volume()
        for host in ('one', 'two'):
            self.attach(volume, host)
        self.refused(self.service.act(volume, 'os-detach', {}), 400)
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_detach_of_an_unknown_attachment_by_a_service_changes_nothing(self) -> None:
        volume = self.volume()
        self.attach(volume)
        # An unknown attachment counts as detached. Only users get an error.
        self.answered(self.service.act(volume, 'os-detach', {'attachment_id': base.server()}),
                      202)
        self.assertEqual(['attached'], self.states(volume))


class ServersOfOneRequest(base.Cases):
    """Cases of servers that one request of the compute API creates with one volume."""

    PLAIN, EXTENDED = 'compute 2.100', 'compute 2.100, blockattach 1.0'
    MODES = ('rw', 'ro', 'ro')

    def setUp(self) -> None:
        super().setUp()
        self.compute = self.needs(self.cloud.compute, 'compute API')
        # Nova rejects several servers with an existing volume with 400.
        if clouds.EXTENSION not in self.asked('GET', '/').headers:
            self.skipTest('the compute API cannot create several servers with a volume')

    def asked(self, method: str, path: str, body: Any = None,
              version: str = EXTENDED) -> client.Answer:
        return self.compute.send(method, path, body, None, OpenStack_API_Version=version)

    def create(self, name: str, volume: str, version: str = EXTENDED,
               **device: Any) -> client.Answer:
        """Create servers with the volume by one request, one server for each item of `MODES`."""
        flavors = self.answered(self.asked('GET', '/flavors'))['flavors']
        self.addCleanup(self.remove, name)
        return self.asked('POST', '/servers', {'server': {
            'name': name, 'imageRef': '', 'flavorRef': flavors[0]['id'], 'networks': 'none',
            'min_count': len(self.MODES), 'max_count': len(self.MODES),
            'block_device_mapping_v2': [{
                'uuid': volume, 'source_type': 'volume', 'destination_type': 'volume',
                'boot_index': 0, **device}]}}, version)

    def servers(self, name: str) -> dict[str, str]:
        """Return the statuses of the servers whose names have this prefix, by server id."""
        listed = self.answered(self.asked('GET', '/servers/detail'))['servers']
        return {one['id']: one['status'] for one in listed if one['name'].startswith(name)}

    def statuses(self, name: str, expected: list[str]) -> None:
        """Wait until the servers have these sorted statuses. Fail after a timeout."""
        found, deadline = None, clock.monotonic() + clouds.SECONDS
        while found != expected and clock.monotonic() < deadline:
            found = sorted(self.servers(name).values())
            clock.pause(clouds.TICK)
        self.assertEqual(expected, found)

    def remove(self, name: str) -> None:
        """Delete the servers whose names have this prefix, and wait until they are gone."""
        for server in self.servers(name):
            self.asked('DELETE', f'/servers/{server}')
        self.statuses(name, [])

    def test_servers_of_one_request_share_a_volume(self) -> None:
        volume, name = self.shared_volume(), f'{clouds.PREFIX}{uuid.uuid4().hex[:12]}'
        self.answered(self.create(name, volume, attach_modes=list(self.MODES)), 202)
        self.statuses(name, ['ACTIVE'] * len(self.MODES))
        attached = self.attachments_of(volume, detail=True)
        self.assertEqual(set(self.servers(name)), {one['instance'] for one in attached})
        self.assertEqual([('attached', mode) for mode in sorted(self.MODES)], sorted(
            (one['status'], one['attach_mode']) for one in attached))
        self.has_status(volume, 'in-use')
        self.remove(name)
        self.assertEqual([], self.attachments_of(volume))
        self.has_status(volume, 'available')

    def test_servers_of_one_request_without_the_extension_are_rejected(self) -> None:
        volume, name = self.shared_volume(), f'{clouds.PREFIX}{uuid.uuid4().hex[:12]}'
        self.refused(self.create(name, volume, self.PLAIN), 400)
        self.assertEqual({}, self.servers(name))
        self.assertEqual([], self.attachments_of(volume))

    def test_servers_of_one_request_without_a_multiattach_volume_are_rejected(self) -> None:
        volume, name = self.volume(), f'{clouds.PREFIX}{uuid.uuid4().hex[:12]}'
        self.refused(self.create(name, volume), 400)
        self.assertEqual({}, self.servers(name))
        self.assertEqual([], self.attachments_of(volume))

"""Contract of the fake host."""
import uuid

from blockattach.compute.hosts import base
from blockattach.compute.hosts import fake
from blockattach.conformance import hosts
from blockattach.storage.domain import connection


class FakeHostTest(hosts.HostContract):

    def setUp(self) -> None:
        self.cloud = fake.Cloud()
        super().setUp()

    def make(self, name: str) -> base.Host:
        """Return the host, whose state is in memory, so each call returns the same object."""
        return self.cloud.hosts.get(name) or fake.FakeHost(name, self.cloud)

    def disk(self, host: base.Host, server_id: str, device: str = '/dev/vdb',
             volume_id: str | None = None,
             mode: connection.AccessMode = connection.AccessMode.RW) -> base.Disk:
        return base.Disk(volume_id or str(uuid.uuid4()), device, mode, True,
                         {'driver_volume_type': 'iscsi', 'auth_password': 'secret-of-twelve'})

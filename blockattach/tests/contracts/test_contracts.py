"""Each row of each consumer's table, in the consumer's order, with what it reads of the answer."""
import tempfile
import unittest

from blockattach.tests.contracts import cinder_csi
from blockattach.tests.contracts import ironic
from blockattach.tests.contracts import nova
from blockattach.tests.contracts import openstacksdk
from blockattach.tests.contracts import player
from blockattach.tests.contracts import shells
from blockattach.tests.fixtures import disks
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import nova as compute


class ServiceCase(unittest.TestCase):
    """A service for all flows, with an image and a Compute service whose servers use nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.glance = cls.enterClassContext(glance.GlanceStandIn())
        cls.compute = cls.enterClassContext(compute.NovaStandIn())
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.http = cls.enterClassContext(http.ApiFixture(options={
            'nova': {'endpoint_override': cls.compute.url},
            'glance': {'endpoint_override': cls.glance.url, 'num_retries': 0},
            'images': {'image_conversion_dir': folder}}))
        cls.http.manager.backend = disks.FileBackend('fake', folder)
        cls.http.manager.report()
        cls.http.work.settle()
        cls.names = {'image': cls.glance.add(disks.image('raw'))}


class ContractsTest(ServiceCase):

    def play(self, consumer):
        for flow in consumer.flows:
            with self.subTest(flow.name):
                played = player.Player(self.http, consumer, self.names)
                for call in flow.calls:
                    played.play(call)

    def test_nova(self):
        self.play(nova.CONSUMER)

    def test_nova_by_an_address_without_the_project(self):
        self.play(nova.CONSUMER._replace(with_project=False))

    def test_ironic(self):
        self.play(ironic.CONSUMER)

    def test_openstacksdk(self):
        self.play(openstacksdk.CONSUMER)

    def test_cinder_csi(self):
        self.play(cinder_csi.CONSUMER)

    def test_the_shell_of_cinderclient(self):
        self.play(shells.CINDER)

    def test_the_shell_of_openstackclient(self):
        self.play(shells.OPENSTACK)

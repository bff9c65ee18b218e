"""Recorded calls of each consumer, in its order, with the parts of the answers that it reads."""
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
    """Test case with a service, an image, and a Compute service without attached volumes."""

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

    def test_nova_calls_answered(self):
        self.play(nova.CONSUMER)

    def test_nova_calls_without_project_in_path_answered(self):
        self.play(nova.CONSUMER._replace(with_project=False))

    def test_ironic_calls_answered(self):
        self.play(ironic.CONSUMER)

    def test_openstacksdk_calls_answered(self):
        self.play(openstacksdk.CONSUMER)

    def test_cinder_csi_calls_answered(self):
        self.play(cinder_csi.CONSUMER)

    def test_cinder_shell_calls_answered(self):
        self.play(shells.CINDER)

    def test_openstack_shell_calls_answered(self):
        self.play(shells.OPENSTACK)

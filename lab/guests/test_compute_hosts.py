"""Conformance of compute hosts that use os-brick and the kernel's initiator, in a guest."""
from lab.guests import base
from lab.guests.machines import guest as guests
from lab.guests.machines import initiator

HOSTS = 'behavior of a host'


class BrickTest(base.LabTestCase):

    def test_os_brick_keeps_the_contract_of_hosts(self):
        host = initiator.Initiator(self.a_guest(
            'host', memory='1G', modules=(*guests.INITIATOR, 'loop'), udev=True))
        host.guest.start()
        host.start()
        self.run_kit(host.guest, HOSTS, 'os-brick', 'lab.guests.brick_kit')

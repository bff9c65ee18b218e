"""Assembled control service with the policies of the operator."""
import json
import os

from blockattach.platform import errors
from blockattach.storage.rpc import attachments
from blockattach.tests.fixtures import make
from blockattach.tests.unit.wiring import test_wiring
from blockattach.wiring import control


class ControlTest(test_wiring.WiringTestCase):

    def setUp(self):
        super().setUp()
        self.rules = os.path.join(self.conf.state_path, 'policy.json')
        self.write({})
        self.conf.set_override('policy_file', self.rules, 'oslo_policy')
        self.conf.set_override('osapi_max_limit', 1, 'api')
        self.built = self.base()
        service = control.build_control(self.built)
        service.start()
        self.addCleanup(service.stop)
        self.client = attachments.AttachmentsClient(self.built.bus)
        self.member = attachments.caller(make.PROJECT, make.USER, ['member', 'reader'])

    def write(self, rules):
        with open(self.rules, 'w', encoding='utf-8') as file:
            json.dump(rules, file)

    def test_control_serves_attachments_of_database(self):
        made = [make.attachment(self.built.database) for _ in range(2)]
        self.assertEqual([made[-1].id], [one.id for one in self.client.list(self.member)])
        self.assertEqual(made[0].id, self.client.get(self.member, made[0].id).id)

    def test_reload_applies_changed_policies(self):
        made = make.attachment(self.built.database)
        self.write({'volume:attachment_get': '!'})
        self.client.get(self.member, made.id)
        self.built.reloads()
        with self.assertRaises(errors.NotAuthorized):
            self.client.get(self.member, made.id)

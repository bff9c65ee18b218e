"""What an operator writes down is what is put together."""
import logging
import pathlib
import queue
import tempfile
import unittest
import uuid

import oslo_messaging
from oslo_config import cfg
from oslo_policy import opts as policy_options

from blockattach.platform import context
from blockattach.platform.http import keystone
from blockattach.platform.rpc import transport
from blockattach.storage import errors
from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachments as attachment_verbs
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import detach_rule
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.testing import backend
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import polling
from blockattach.wiring import control
from blockattach.wiring import dependencies
from blockattach.wiring import options
from blockattach.wiring import volume

VERB = detach_rule.Verb.DELETE
LIMIT = polling.LIMIT
"""Seconds after which a test gives up on what should come at once."""


class WiringTestCase(unittest.TestCase):
    """Dependencies on a database of its own and a bus in this process."""

    def setUp(self):
        super().setUp()
        silent = logging.NullHandler()
        logging.getLogger('blockattach').addHandler(silent)
        self.addCleanup(logging.getLogger('blockattach').removeHandler, silent)
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        transport.register_options(self.conf)
        policy_options.set_defaults(self.conf)
        self.conf([], project='blockattach', default_config_files=[], default_config_dirs=[])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.conf.set_override('state_path', folder.name)
        self.conf.set_override('transport_url', f'inproc://{uuid.uuid4().hex}/')

    def base(self):
        built = dependencies.build_dependencies(self.conf, upgrade=True)
        self.addCleanup(built.close)
        return built


class StateTest(WiringTestCase):
    """What is found below state_path."""

    def setUp(self):
        super().setUp()
        self.state = pathlib.Path(self.conf.state_path)

    def refused(self, said):
        with self.assertRaisesRegex(errors.ConfigurationError, said):
            self.base()

    def test_a_directory_that_is_open_to_others(self):
        for mode in (0o755, 0o750, 0o707):
            self.state.chmod(mode)
            self.refused(f'mode {mode:04o}.. Run: chmod 700 {self.state}')
        self.state.chmod(0o700)
        self.base()

    def test_a_lost_key_is_not_replaced(self):
        key = self.state / 'seal.key'
        self.base()
        key.unlink()
        # Nothing is sealed yet.
        made = self.base()
        make.attachment(made.database, with_connector=make.connector())
        key.rename(f'{key}.safe')
        for _ in range(2):
            self.refused(f'Restore {key}, or run blockattach-manage secrets check')
            self.assertFalse(key.exists())


class DetachRuleTest(WiringTestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)

    def attached(self, base):
        made = make.attachment(base.database)
        self.nova.use(made.instance_uuid, made.volume_id, made.id)
        return made

    def caller(self, *service_roles):
        return context.RequestContext(project_id=make.PROJECT, service_roles=list(service_roles),
                                      overwrite=False)

    def test_without_a_nova_the_rule_rests(self):
        base = self.base()
        control.build_detach_rule(base).check(
            self.caller(), self.attached(base), VERB)

    def test_with_a_nova_it_holds(self):
        self.conf.set_override('endpoint_override', self.nova.url, group='nova')
        base = self.base()
        rule, attachment = control.build_detach_rule(base), self.attached(base)
        rule.check(self.caller('service'), attachment, VERB)
        with self.assertRaises(errors.AttachmentInUseByServer):
            rule.check(self.caller(), attachment, VERB)
        other = make.attachment(base.database)
        with self.assertRaisesRegex(errors.InvalidInput, 'Mismatched'):
            rule.check_volume(self.caller(), attachment.volume_id, [attachment], other.id,
                              detach_rule.Verb.DETACH)

    def test_with_keystone_it_holds_and_says_what_is_missing(self):
        self.conf.set_override('auth_strategy', 'keystone', group='api')
        keystone.register(self.conf)
        self.conf.set_override('service_token_roles', ['services'], group='keystone_authtoken')
        base = self.base()
        with self.assertLogs('blockattach.wiring.control', 'WARNING'):
            rule = control.build_detach_rule(base)
        attachment = self.attached(base)
        rule.check(self.caller('services'), attachment, VERB)
        with self.assertRaises(errors.NovaUnavailable):
            rule.check(self.caller('service'), attachment, VERB)

    def test_off_is_off_and_said(self):
        self.conf.set_override('auth_strategy', 'keystone', group='api')
        self.conf.set_override('detach_rule', 'off', group='nova')
        self.conf.set_override('endpoint_override', self.nova.url, group='nova')
        base = self.base()
        with self.assertLogs('blockattach.wiring.control', 'WARNING'):
            rule = control.build_detach_rule(base)
        rule.check(self.caller(), self.attached(base), VERB)
        self.assertEqual([], self.nova.requests)


class NotificationsTest(WiringTestCase):

    def test_they_follow_the_configuration(self):
        self.assertFalse(self.base().notifier.enabled)
        self.conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
        self.assertTrue(self.base().notifier.enabled)

    def test_the_rows_are_those_of_the_database(self):
        self.conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
        base = self.base()
        connected = make.attachment(base.database, state=lifecycle.State.CONNECTED)
        made = make.move(base.database, connected, lifecycle.Event.COMPLETE)
        base.attachment_notifications.moved(context.admin_context(), connected, made)
        publisher, event_type, payload = self.heard().get(timeout=LIMIT)
        self.assertEqual(('volume.storage-1@file', 'volume.attach.end', 'in-use', [made.id]),
                         (publisher, event_type, payload['status'],
                          [row['id'] for row in payload['volume_attachment']]))

    def test_the_end_is_notified_though_the_volume_is_gone_by_then(self):
        self.conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
        base = self.base()
        leaving = make.attachment(base.database, state=lifecycle.State.DISCONNECTING)
        moved = attachment_verbs.move(base.database, leaving.volume_id, leaving.id,
                                 lifecycle.Event.DISCONNECTED)
        deleting = volumes.start_delete(base.database, make.judged(leaving.volume_id), LIMIT)
        work_ends.finish(base.database, volumes.deletion(leaving.volume_id, deleting.generation))
        base.attachment_notifications.moved(context.admin_context(), moved.old, moved.new)
        publisher, event_type, payload = self.heard().get(timeout=LIMIT)
        self.assertEqual(('volume.storage-1@file', 'volume.detach.end', []),
                         (publisher, event_type, payload['volume_attachment']))

    def heard(self):
        """Notifications, as any listener gets them."""
        listener = Listener()
        channel = oslo_messaging.get_notification_transport(self.conf)
        self.addCleanup(channel.cleanup)
        server = oslo_messaging.get_notification_listener(
            channel, [oslo_messaging.Target(topic='notifications')], [listener],
            executor='threading')
        server.start()
        self.addCleanup(server.stop)
        return listener.heard


class Listener:
    """Keeps what it hears."""

    def __init__(self):
        self.heard = queue.SimpleQueue()

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        self.heard.put((publisher_id, event_type, payload))


class Plain(fake_store.FakeStore):
    """Cannot clone."""

    clone = None


class ImageCacheTest(WiringTestCase):
    """A backend that is to cache images and cannot does not begin."""

    WHOSE = {'cinder_internal_tenant_project_id': 'ours', 'cinder_internal_tenant_user_id': 'us'}

    def build(self, store=fake_store.FakeStore, **whose):
        self.conf.set_override('endpoint_override', 'http://127.0.0.1:1', group='glance')
        for name, value in whose.items():
            self.conf.set_override(name, value, group='images')
        backend_conf.register(self.conf, 'kept')
        chosen = backend.settings('/nonexistent', name='kept', image_volume_cache_enabled=True)
        return volume.build_manager(self.base(), 'kept', loading.Backend(
            'kept', chosen, store(chosen), fake_target.FakeTarget(chosen)))

    def test_it_begins_with_what_it_needs(self):
        self.build(**self.WHOSE).kept.repairer.stop()

    def test_whose_the_volumes_are_is_not_said(self):
        for name in self.WHOSE:
            with self.subTest(name), self.assertRaisesRegex(errors.ConfigurationError, name):
                self.build(**{**self.WHOSE, name: None})

    def test_the_store_cannot_clone(self):
        with self.assertRaisesRegex(errors.ConfigurationError, 'image_volume_cache_enabled'):
            self.build(Plain, **self.WHOSE)

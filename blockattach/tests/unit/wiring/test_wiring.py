"""Assembly of the services from the configuration."""
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
    """Test case with a database of its own and an in-process bus."""

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
    """Files below ``state_path``."""

    def setUp(self):
        super().setUp()
        self.state = pathlib.Path(self.conf.state_path)

    def refused(self, said):
        with self.assertRaisesRegex(errors.ConfigurationError, said):
            self.base()

    def test_state_path_open_to_others_rejected(self):
        for mode in (0o755, 0o750, 0o707):
            self.state.chmod(mode)
            self.refused(f'mode {mode:04o}.. Run: chmod 700 {self.state}')
        self.state.chmod(0o700)
        self.base()

    def test_lost_sealing_key_not_replaced(self):
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

    def test_detach_rule_off_without_nova(self):
        base = self.base()
        control.build_detach_rule(base).check(
            self.caller(), self.attached(base), VERB)

    def test_detach_rule_on_with_nova(self):
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

    def test_detach_rule_on_with_keystone_logs_missing_nova(self):
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

    def test_detach_rule_disabled_by_option_logged(self):
        self.conf.set_override('auth_strategy', 'keystone', group='api')
        self.conf.set_override('detach_rule', 'off', group='nova')
        self.conf.set_override('endpoint_override', self.nova.url, group='nova')
        base = self.base()
        with self.assertLogs('blockattach.wiring.control', 'WARNING'):
            rule = control.build_detach_rule(base)
        rule.check(self.caller(), self.attached(base), VERB)
        self.assertEqual([], self.nova.requests)


class NotificationsTest(WiringTestCase):

    def test_notifications_enabled_by_driver(self):
        self.assertFalse(self.base().notifier.enabled)
        self.conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
        self.assertTrue(self.base().notifier.enabled)

    def test_attach_notification_reads_database(self):
        self.conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
        base = self.base()
        connected = make.attachment(base.database, state=lifecycle.State.CONNECTED)
        made = make.move(base.database, connected, lifecycle.Event.COMPLETE)
        base.attachment_notifications.moved(context.admin_context(), connected, made)
        publisher, event_type, payload = self.heard().get(timeout=LIMIT)
        self.assertEqual(('volume.storage-1@file', 'volume.attach.end', 'in-use', [made.id]),
                         (publisher, event_type, payload['status'],
                          [row['id'] for row in payload['volume_attachment']]))

    def test_detach_end_notified_for_deleted_volume(self):
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
        """Return the queue of received notifications."""
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
    """Listener that records notifications."""

    def __init__(self):
        self.heard = queue.SimpleQueue()

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        self.heard.put((publisher_id, event_type, payload))


class Plain(fake_store.FakeStore):
    """Store that does not support clones."""

    clone = None


class ImageCacheTest(WiringTestCase):
    """Requirements of a backend with an image-volume cache."""

    WHOSE = {'cinder_internal_tenant_project_id': 'ours', 'cinder_internal_tenant_user_id': 'us'}

    def build(self, store=fake_store.FakeStore, **whose):
        self.conf.set_override('endpoint_override', 'http://127.0.0.1:1', group='glance')
        for name, value in whose.items():
            self.conf.set_override(name, value, group='images')
        backend_conf.register(self.conf, 'kept')
        chosen = backend.settings('/nonexistent', name='kept', image_volume_cache_enabled=True)
        return volume.build_manager(self.base(), 'kept', loading.Backend(
            'kept', chosen, store(chosen), fake_target.FakeTarget(chosen)))

    def test_image_cache_with_requirements_starts(self):
        self.build(**self.WHOSE).kept.repairer.stop()

    def test_image_cache_without_internal_tenant_rejected(self):
        for name in self.WHOSE:
            with self.subTest(name), self.assertRaisesRegex(errors.ConfigurationError, name):
                self.build(**{**self.WHOSE, name: None})

    def test_image_cache_on_store_without_clone_rejected(self):
        with self.assertRaisesRegex(errors.ConfigurationError, 'image_volume_cache_enabled'):
            self.build(Plain, **self.WHOSE)

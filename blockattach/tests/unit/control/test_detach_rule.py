"""Detach rule with a stand-in for Nova: callers, answers, and requests to Nova."""
import logging
import unittest

from oslo_config import cfg

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage import nova as nova_client
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.control import detach_rule
from blockattach.storage.domain import detach_rule as domain_rule
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import nova
from blockattach.tests.unit import samples

OTHER = '44444444-4444-4444-8444-444444444444'
_Verb = domain_rule.Verb
SENTENCE = (f'ConflictNovaUsingAttachment: Detach volume from instance {samples.SERVER} using '
            'the Compute API')


def caller(roles=('member', 'reader'), service_roles=(), is_admin=False,
           project_id=samples.PROJECT):
    return context.RequestContext(
        auth_token='token', project_id=project_id, roles=list(roles), is_admin=is_admin,
        service_roles=list(service_roles), overwrite=False)


class RuleTestCase(unittest.TestCase):
    """Test case with a Nova whose server uses an attachment."""

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.nova.use(samples.SERVER, samples.VOLUME, samples.ATTACHMENT)
        self.elsewhere = {}
        silent = logging.NullHandler()
        logging.getLogger('blockattach').addHandler(silent)
        self.addCleanup(logging.getLogger('blockattach').removeHandler, silent)

    def rule(self, configured=True, timeout=60.0, **settings):
        asked = nova_client.NovaClient(nova_conf.NovaSettings(
            endpoint_override=self.nova.url, timeout=timeout)) if configured else None
        return detach_rule.DetachRule(asked, self.find, **settings)

    def find(self, attachment_id):
        if attachment_id not in self.elsewhere:
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        return self.elsewhere[attachment_id]

    def assert_asked(self, times):
        self.assertEqual(times, len(self.nova.requests))


class CheckTest(RuleTestCase):
    """Check of a single attachment, as for ``DELETE /attachments/{id}``."""

    def test_attachment_in_use_rejected_for_each_caller(self):
        for ctxt in (caller(), caller(roles=('admin',), is_admin=True), caller(roles=('service',)),
                     caller(service_roles=('member',))):
            with (self.subTest(roles=ctxt.roles),
                  self.assertRaises(errors.AttachmentInUseByServer) as caught):
                self.rule().check(ctxt, samples.attachment(), _Verb.DELETE)
            self.assertTrue(str(caught.exception).startswith(SENTENCE))
            self.assertIn('X-Service-Token', str(caught.exception))

    def test_service_token_passes_without_request(self):
        self.rule().check(caller(service_roles=('reader', 'service')), samples.attachment(),
                          _Verb.DELETE)
        self.rule(service_roles=('nova', 'glance')).check(
            caller(service_roles=('glance',)), samples.attachment(), _Verb.DELETE)
        self.assert_asked(0)

    def test_service_token_with_other_role_checked(self):
        with self.assertRaises(errors.AttachmentInUseByServer):
            self.rule(service_roles=('nova',)).check(
                caller(service_roles=('service',)), samples.attachment(), _Verb.DELETE)

    def test_attachment_without_server_passes_without_request(self):
        for unused in (samples.attachment(instance_uuid=None), samples.attachment(connection=None),
                       samples.attachment(connection={})):
            self.rule().check(caller(), unused, _Verb.DELETE)
        self.assert_asked(0)

    def test_attachment_of_unknown_server_passes(self):
        self.rule().check(caller(), samples.attachment(instance_uuid='another-server'),
                          _Verb.DELETE)
        self.assert_asked(1)

    def test_other_attachment_of_used_volume_passes(self):
        self.rule().check(caller(), samples.attachment(id=OTHER), _Verb.DELETE)
        self.assert_asked(1)

    def test_check_without_answer_of_nova_rejected(self):
        def away():
            self.nova.close()

        def failing():
            self.nova.answer = nova.Reply(500, {'computeFault': {'code': 500}})
        for event, rule in ((lambda: None, self.rule(configured=False)),
                            (failing, self.rule()),
                            (self.nova.fall_asleep, self.rule(timeout=0.05)),
                            (away, self.rule())):
            event()
            with self.subTest(event=event), self.assertRaises(errors.NovaUnavailable):
                rule.check(caller(is_admin=True), samples.attachment(), _Verb.DELETE)

    def test_disabled_rule_passes_without_request(self):
        self.rule(holds=False).check(caller(), samples.attachment(), _Verb.DELETE)
        self.rule(holds=False).check_volume(
            caller(), samples.VOLUME, [samples.attachment(), samples.attachment(id=OTHER)], None,
            _Verb.DETACH)
        self.assert_asked(0)

    def test_forced_delete_rejected_only_by_answer_of_nova(self):
        admin = caller(is_admin=True)
        with self.assertRaises(errors.AttachmentInUseByServer):
            self.rule().check(admin, samples.attachment(), _Verb.FORCED_DELETE)
        self.nova.answer = nova.Reply(500, {'computeFault': {'code': 500}})
        self.rule().check(admin, samples.attachment(), _Verb.FORCED_DELETE)
        self.rule(configured=False).check(admin, samples.attachment(), _Verb.FORCED_DELETE)

    def test_update_with_same_host_passes_without_request(self):
        row = samples.attachment()
        self.rule().check(caller(), row, _Verb.UPDATE, make.connector(row.initiator))
        self.assert_asked(0)
        with self.assertRaises(errors.AttachmentInUseByServer):
            self.rule().check(caller(), row, _Verb.UPDATE, make.connector())


class CheckVolumeTest(RuleTestCase):
    """Check of a volume action, which may name an attachment."""

    def check(self, rows, attachment_id, ctxt=None):
        self.rule().check_volume(ctxt or caller(), samples.VOLUME, rows, attachment_id,
                                 _Verb.DETACH)

    def test_volume_without_attachments_passes_without_request(self):
        self.check([], None)
        self.assert_asked(0)

    def test_unnamed_attachment_is_only_one(self):
        with self.assertRaisesRegex(errors.AttachmentInUseByServer, samples.SERVER):
            self.check([samples.attachment()], None)
        self.check([samples.attachment(id=OTHER)], None)

    def test_named_attachment_of_several_checked(self):
        rows = [samples.attachment(), samples.attachment(id=OTHER)]
        self.check(rows, OTHER)
        with self.assertRaisesRegex(errors.AttachmentInUseByServer, samples.SERVER):
            self.check(rows, samples.ATTACHMENT)

    def test_ambiguous_or_unknown_attachment_rejected(self):
        several = [samples.attachment(), samples.attachment(id=OTHER)]
        for rows, attachment_id in ((several, None), (several, 'unknown'), ([], 'unknown'),
                                    (several[:1], 'unknown')):
            with (self.subTest(rows=len(rows), attachment_id=attachment_id),
                  self.assertRaises(errors.AttachmentNotNamed) as caught):
                self.check(rows, attachment_id)
            self.assertIn('Detach volume from instance  using', str(caught.exception))
        self.assert_asked(0)

    def test_attachment_of_other_volume_rejected(self):
        self.elsewhere['mine'] = samples.attachment(id='mine', volume_id='another-volume')
        self.elsewhere['theirs'] = samples.attachment(id='theirs', volume_id='another-volume',
                                                      project_id='another-project')
        with self.assertRaisesRegex(errors.InvalidInput, 'Mismatched volume and attachment'):
            self.check([samples.attachment()], 'mine')
        # Nobody learns that somebody else's id exists.
        with self.assertRaises(errors.AttachmentNotNamed):
            self.check([samples.attachment()], 'theirs')
        with self.assertRaisesRegex(errors.InvalidInput, 'Mismatched'):
            self.check([samples.attachment()], 'theirs', caller(is_admin=True))

    def test_service_token_passes_for_volume_action(self):
        several = [samples.attachment(), samples.attachment(id=OTHER)]
        for rows, attachment_id in ((several, None), (several, 'unknown'), ([], None),
                                    (several[:1], None)):
            self.check(rows, attachment_id, caller(service_roles=('service',)))
        self.assert_asked(0)


class SettingsTest(unittest.TestCase):
    """Settings of the detach rule."""

    def test_auto_enables_rule_with_nova_or_keystone(self):
        for word, url, keystone, holds in (
                ('auto', None, False, False), ('auto', None, True, True),
                ('auto', 'http://nova', False, True), ('on', None, False, True),
                ('off', 'http://nova', True, False)):
            for place in ('auth_url', 'endpoint_override'):
                with self.subTest(word=word, url=url, keystone=keystone, place=place):
                    settings = nova_conf.NovaSettings(detach_rule=word, **{place: url})
                    self.assertEqual(holds, settings.rule_holds(keystone))
                    self.assertEqual(url is not None, settings.configured)

    def test_settings_read_from_options(self):
        conf = cfg.ConfigOpts()
        conf.register_opts(nova_conf.OPTS, group=nova_conf.GROUP)
        conf([], project='blockattach', default_config_files=[])
        self.assertEqual(nova_conf.NovaSettings(), nova_conf.settings(conf))
        for name, value in {'endpoint_override': 'http://nova/v2.1/', 'auth_url': 'http://k/v3/',
                            'region_name': '', 'timeout': 1}.items():
            conf.set_override(name, value, group=nova_conf.GROUP)
        self.assertEqual(nova_conf.NovaSettings(
            endpoint_override='http://nova/v2.1', auth_url='http://k/v3', timeout=1),
            nova_conf.settings(conf))

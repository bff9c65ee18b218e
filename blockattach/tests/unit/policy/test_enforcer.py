"""Policy enforcement: defaults, policy files, and cached decisions."""
import itertools
import logging
import os
import re
import tempfile
import unittest

from oslo_config import cfg
from oslo_policy import opts as policy_options

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.policy import enforcer
from blockattach.storage.policy import attachments
from blockattach.storage.policy import services
from blockattach.storage.policy import volumes
from blockattach.tests.fixtures import clock
from blockattach.tests.rules import sources
from blockattach.wiring import rules
from blockattach.wiring import rules as policy_rules

MINE = 'p'
THEIRS = 'q'


def caller(*roles, project_id=MINE, user_id='u', **more):
    made = context.RequestContext(user_id=user_id, project_id=project_id, roles=list(roles),
                                  overwrite=False, **more)
    made.is_admin = 'admin' in roles
    return made


def config(folder):
    conf = cfg.ConfigOpts()
    policy_options.set_defaults(conf)
    conf([], project='blockattach', default_config_files=[], default_config_dirs=[])
    conf.set_override('policy_file', os.path.join(folder, 'policy.yaml'), group='oslo_policy')
    conf.set_override('policy_dirs', [], group='oslo_policy')
    return conf


class Case(unittest.TestCase):
    """Test case with a policy file that the enforcer reads."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, 'policy.yaml')
        self.conf = config(folder.name)

    def write(self, text):
        with open(self.file, 'w', encoding='utf-8') as file:
            file.write(text)

    def made(self):
        return enforcer.Enforcer(self.conf, policy_rules.list_rules())


class DefaultsTest(Case):
    """Default policies."""

    def test_default_policies_by_role_and_project(self):
        rules_of = self.made()
        table = (
            #  rule                    roles                 own    other
            (attachments.CREATE,       ('member',),          True,  False),
            (attachments.CREATE,       ('reader',),          False, False),
            (attachments.CREATE,       ('admin',),           True,  True),
            (attachments.CREATE,       ('Member',),          True,  False),
            (attachments.CREATE,       (),                   False, False),
            (attachments.GET,          ('reader',),          True,  False),
            (attachments.GET,          ('member',),          False, False),
            (attachments.GET,          ('admin',),           True,  True),
            (attachments.SECRETS,      ('reader',),          False, False),
            (attachments.SECRETS,      ('member',),          True,  False),
            (attachments.SECRETS,      ('service',),         True,  True),
            (attachments.DELETE,       ('service',),         False, False),
            (volumes.FORCE_DELETE,     ('member',),          False, False),
            (volumes.FORCE_DELETE,     ('admin',),           True,  True),
            (services.GET_ALL,         ('member', 'reader'), False, False),
        )
        for rule, roles, own, other in table:
            with self.subTest(rule=rule, roles=roles):
                for _ in range(2):  # the second time from what is kept
                    self.assertEqual((own, other), (
                        rules_of.allowed(caller(*roles), rule, MINE),
                        rules_of.allowed(caller(*roles), rule, THEIRS)))

    def test_service_token_allows_secrets(self):
        beside = caller('reader', service_roles=['service'])
        self.assertTrue(self.made().allowed(beside, attachments.SECRETS, MINE))

    def test_policy_without_target_uses_own_project(self):
        self.assertTrue(self.made().allowed(caller('member'), attachments.CREATE))

    def test_authorize_error_names_policy(self):
        with self.assertRaisesRegex(errors.NotAuthorized, "^Policy doesn't allow "
                                                          'volume:create to be performed.$'):
            self.made().authorize(caller('reader'), volumes.CREATE)
        self.made().authorize(caller('member'), volumes.CREATE)

    def test_is_admin_decided_by_policy(self):
        self.write('context_is_admin: role:boss\n')
        rules_of = self.made()
        self.assertEqual((True, False), (rules_of.is_admin(caller('boss')),
                                         rules_of.is_admin(caller('admin'))))

    def test_unknown_policy_raises_key_error(self):
        rules_of = self.made()
        self.assertFalse(rules_of.knows('volume:no_such'))
        with self.assertRaises(KeyError):
            rules_of.allowed(caller('admin'), 'volume:no_such')

    def test_cached_decisions_equal_fresh_ones(self):
        kept = self.made()
        personas = [caller(*roles, project_id=project, service_roles=service)
                    for roles in ((), ('reader',), ('member',), ('admin',), ('member', 'reader'))
                    for project in (MINE, THEIRS) for service in ([], ['service'])]
        for one, rule, target in itertools.product(
                personas, [rule.name for rule in rules.list_rules()], (MINE, THEIRS)):
            kept.allowed(one, rule, target)
        for one, rule in itertools.product(personas[::3], [attachments.SECRETS, volumes.GET,
                                                           services.GET_ALL]):
            with self.subTest(roles=one.roles, rule=rule):
                self.assertEqual(self.made().allowed(one, rule, MINE),
                                 kept.allowed(one, rule, MINE))


class FileTest(Case):
    """Policy files of the operator."""

    def test_policy_file_overrides_defaults(self):
        self.write('"volume:create": "role:maker"\n')
        rules_of = self.made()
        self.assertEqual((True, False), (rules_of.allowed(caller('maker'), volumes.CREATE),
                                         rules_of.allowed(caller('member'), volumes.CREATE)))

    def test_unknown_policy_in_file_logged(self):
        self.write('"volume:creat": "role:maker or rule:mine"\n"mine": "role:x"\n'
                   '"volume:create": "role:maker"\n')
        with self.assertLogs(enforcer.LOG, logging.WARNING) as logged:
            self.made()
        [line] = logged.output
        self.assertIn(f'path={self.file} rule=volume:creat nearest=volume:create', line)

    def test_sample_file_logs_no_warning(self):
        sample = sources.ROOT / 'etc' / 'blockattach' / 'policy.yaml.sample'
        self.write(re.sub(r'^#"', '"', sample.read_text(), flags=re.M))
        with self.assertNoLogs(enforcer.LOG, logging.WARNING):
            self.made()

    def test_changed_file_applied_within_a_second(self):
        time = clock.ManualClock()
        rules_of = enforcer.Enforcer(self.conf, policy_rules.list_rules(), time)
        maker = caller('maker')
        self.assertFalse(rules_of.allowed(maker, volumes.CREATE))
        for change, wanted in (
                (lambda: self.write('"volume:create": "role:maker"\n'), True),
                (lambda: self.write('"volume:create": "role:other"\n'), False),
                (lambda: self.write('"volume:create": "role:maker or role:other"\n'), True),
                (lambda: os.remove(self.file), False)):
            before = rules_of.allowed(maker, volumes.CREATE)
            change()
            rules_of.is_admin(maker)
            self.assertEqual(before, rules_of.allowed(maker, volumes.CREATE))
            time.advance(1)
            rules_of.is_admin(maker)
            self.assertEqual(wanted, rules_of.allowed(maker, volumes.CREATE))

    def test_policy_dir_overrides_policy_file(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.conf.set_override('policy_dirs', [folder.name], group='oslo_policy')
        self.write('"volume:create": "role:maker"\n"volume:delete": "role:maker"\n')
        time = clock.ManualClock()
        rules_of = enforcer.Enforcer(self.conf, policy_rules.list_rules(), time)
        for name, text in (('10-site.yaml', '"volume:create": "role:other"\n'),
                           ('.10-site.yaml.swp', 'of an editor')):
            with open(os.path.join(folder.name, name), 'w', encoding='utf-8') as file:
                file.write(text)
        time.advance(1)
        rules_of.is_admin(caller())
        self.assertEqual((False, True, True), (
            rules_of.allowed(caller('maker'), volumes.CREATE),
            rules_of.allowed(caller('other'), volumes.CREATE),
            rules_of.allowed(caller('maker'), volumes.DELETE)))

    def test_changed_file_applied_by_reload(self):
        rules_of = self.made()
        maker = caller('maker')
        self.assertFalse(rules_of.allowed(maker, volumes.CREATE))
        self.write('"volume:create": "role:maker"\n')
        rules_of.reload()
        self.assertTrue(rules_of.allowed(maker, volumes.CREATE))

    def test_invalid_change_logged_once_and_ignored(self):
        self.write('"volume:create": "role:maker"\n')
        time = clock.ManualClock()
        rules_of = enforcer.Enforcer(self.conf, policy_rules.list_rules(), time)
        self.write('"volume:create": [unclosed\n')
        with self.assertLogs('blockattach.platform.policy.enforcer', 'ERROR') as logs:
            for _ in range(3):
                time.advance(1)
                rules_of.is_admin(caller())
        self.assertEqual(1, len(logs.output))
        self.assertIn(self.file, logs.output[0])
        self.assertTrue(rules_of.allowed(caller('maker'), volumes.CREATE))

    def test_invalid_file_error_has_one_line(self):
        silent = logging.getLogger('oslo_policy')
        self.addCleanup(silent.setLevel, silent.level)
        silent.setLevel(logging.CRITICAL + 1)
        for text in ('"volume:create": [unclosed\n', '- a\n- b\n', 'a word', '1: "role:a"\n',
                     '"volume:create": 3\n', '"volume:create": "role:a and and"\n',
                     '"volume:create": "rule:none"\n', '"a": "rule:b"\n"b": "rule:a"\n', '\0'):
            with self.subTest(text=text):
                self.write(text)
                with self.assertRaisesRegex(errors.ConfigurationError,
                                            'cannot read the policy files: ') as caught:
                    self.made()
                self.assertNotIn('\n', str(caught.exception))

    def test_constant_and_unknown_namespace_rules_accepted(self):
        self.write('"volume:create": "!"\n"volume:delete": ""\n"of:another:service": "role:a"\n')
        rules_of = self.made()
        self.assertEqual((False, True), (rules_of.allowed(caller('admin'), volumes.CREATE),
                                         rules_of.allowed(caller(), volumes.DELETE)))

    def test_invalid_file_at_start_rejected(self):
        self.write('"volume:create": [unclosed\n')
        with self.assertRaises(errors.ConfigurationError):
            self.made()

    def test_rule_on_user_id_decided_per_caller(self):
        self.write('"chosen": "user_id:ann"\n"volume:create": "rule:chosen and role:member"\n')
        rules_of = self.made()
        for _ in range(2):
            for user, wanted in (('ann', True), ('bob', False)):
                with self.subTest(user=user):
                    self.assertEqual(wanted, rules_of.allowed(caller('member', user_id=user),
                                                              volumes.CREATE))

    def test_cached_decisions_bounded(self):
        rules_of = self.made()
        for number in range(25000):
            self.assertFalse(rules_of.allowed(caller(f'role{number}'), volumes.CREATE))
        self.assertLessEqual(rules_of.kept_decisions, 10000)


class FactsTest(unittest.TestCase):
    """Rules whose decisions can be cached by roles and ownership alone."""

    def test_rules_cacheable_by_roles_and_ownership(self):
        texts = {
            'roles': '(role:admin or (role:member and project_id:%(project_id)s))',
            'chain': 'rule:roles', 'loop': '(rule:loop or role:a)',
            'user': 'user_id:%(user_id)s', 'far': '(role:a or rule:user)',
            'web': 'http://auth.example.org/%(project_id)s', 'fixed': 'project_id:p',
            'role_of_target': 'role:%(wanted)s', 'literal': "'a':%(project_id)s", 'all': '@',
        }
        little = {name for name in texts if enforcer.asks_little(name, texts)}
        self.assertEqual({'roles', 'chain', 'loop', 'all'}, little)

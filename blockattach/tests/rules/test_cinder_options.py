"""Comparison of the table of Cinder's options with the installed libraries.

The oldest supported versions of the libraries lack some options, so this is not a unit test.
"""
import importlib.metadata
import unittest

from keystoneauth1 import loading

from blockattach.storage.conf import cinder_options

LIBRARIES = ('blockattach', 'castellan.config', 'keystonemiddleware.auth_token', 'oslo.limit',
             'oslo.log', 'oslo.messaging', 'oslo.policy')


class TableTest(unittest.TestCase):

    def test_option_table_equals_library_options(self):
        listed = {}
        for entry in importlib.metadata.entry_points(group='oslo.config.opts'):
            if entry.name in LIBRARIES:
                for group, found in entry.load()():
                    names = listed.setdefault(str(group or 'DEFAULT'), set())
                    for option in found:
                        names |= {option.dest, *(former.name.replace('-', '_') for former
                                                 in option.deprecated_opts if former.name)}
        listed['service_user'] |= {option.dest for option in loading.get_auth_plugin_conf_options(
            'v3password')}
        listed['DEFAULT'] |= {'config_dir', 'config_file', 'config_source'}
        listed['oslo_limit'] |= {'auth_section', 'auth_type'}
        for group, rows in cinder_options.GROUPS.items():
            with self.subTest(group):
                self.assertEqual(set(), set(rows.same.split()) - listed.get(group, set()))

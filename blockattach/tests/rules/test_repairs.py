"""Repair commands of the invariants, which exist and accept their arguments."""
import argparse
import io
import unittest
from contextlib import redirect_stderr

from openstackclient import shell

from blockattach.cmd import manage
from blockattach.storage.domain import invariants
from blockattach.storage.domain.invariants import observed

OURS, CLIENT = 'blockattach-manage', 'openstack'
FILLED = {'volume_id': '11111111-1111-4111-8111-111111111111',
          'attachment_id': '22222222-2222-4222-8222-222222222222'}


def is_ours(words):
    """Return True if the service's own command accepts the words."""
    parser = argparse.ArgumentParser(prog=OURS)
    manage._add_commands(parser.add_subparsers(dest='noun', required=True))
    try:
        with redirect_stderr(io.StringIO()):
            parser.parse_args(words)
    except SystemExit:
        return False
    return True


def is_clients(words):
    """Return True if openstackclient has the command and it accepts the arguments."""
    shop = shell.OpenStackShell().command_manager
    shop.load_commands('openstack.volume.v3')
    try:
        found, _, arguments = shop.find_command(words)
    except ValueError:
        return False
    parser = found(argparse.Namespace(), argparse.Namespace()).get_parser(CLIENT)
    try:
        with redirect_stderr(io.StringIO()):
            parser.parse_args(arguments)
    except SystemExit:
        return False
    return True


TAKEN = {OURS: is_ours, CLIENT: is_clients}


def works(repair):
    """Return True if the repair command exists and accepts its arguments."""
    program, *words = repair.format(**FILLED).split()
    return program in TAKEN and TAKEN[program](words)


class RepairsTest(unittest.TestCase):

    def test_repairs_are_valid_commands(self):
        for row in invariants.INVARIANTS:
            if row.repair == observed.RECONCILE and 'reconcile' not in manage.NOUNS:
                continue
            with self.subTest(row.name):
                self.assertTrue(works(row.repair), row.repair)

    def test_invalid_repair_command_found(self):
        for repair in ('blockattach-manage attachments repair {volume_id}',
                     'blockattach-manage attachments derive --all', 'blockattach-mange db sync',
                     'openstack volume attachment forget {attachment_id}',
                     'openstack volume attachment delete'):
            with self.subTest(repair):
                self.assertFalse(works(repair))

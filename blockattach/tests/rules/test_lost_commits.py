"""Verbs after a lost COMMIT, which look for their rows or are listed as repeatable.

`blockattach.platform.db.engine.Database.writer` takes a function that looks for the outcome.
Without it, the verb is repeated. The table has the reason why that does no harm.
"""
import ast
import unittest

from blockattach.tests.rules import sources

AGAIN = 'writes the same values again'
NOTHING_LEFT = 'finds nothing left to do'
FOUND_DONE = 'is refused because the requested state is reached'

REPEATABLE = {
    ('storage/db/derived.py', 'counts'): AGAIN,
    ('storage/db/derived.py', 'volume_status'): AGAIN,
    ('storage/db/attachments/detaches.py', '_lapse'): NOTHING_LEFT,
    ('platform/db/engine.py', 'wrong'): AGAIN,
    ('storage/db/idempotency.py', 'purge'): NOTHING_LEFT,
    ('storage/db/attachments/key_rotation.py', '_awaiting'): AGAIN,
    ('storage/db/attachments/key_rotation.py', '_reseal'): NOTHING_LEFT,
    ('storage/db/attachments/key_rotation.py', 'renew'): NOTHING_LEFT,
    ('storage/db/attachments/dry_runs.py', 'reserve'): AGAIN,
    ('storage/db/attachments/initiator_names.py', '_migrate_volume'): NOTHING_LEFT,
    ('storage/db/attachments/history.py', '_number'): NOTHING_LEFT,
    ('storage/db/attachments/history.py', 'purge'): NOTHING_LEFT,
    ('storage/db/attachments/leases.py', 'take'): AGAIN,
    ('storage/db/attachments/leases.py', 'give_back'): NOTHING_LEFT,
    ('storage/db/attachments/leases.py', 'forget'): NOTHING_LEFT,
    ('storage/db/attachments/leases.py', 'leave'): NOTHING_LEFT,
    ('storage/db/messages.py', 'create'): AGAIN,
    ('storage/db/messages.py', 'delete'): NOTHING_LEFT,
    ('storage/db/messages.py', 'purge'): NOTHING_LEFT,
    ('storage/db/services/clusters.py', 'set_disabled'): AGAIN,
    ('storage/db/services/pools.py', 'report'): AGAIN,
    ('storage/db/services/pools.py', 'forget'): NOTHING_LEFT,
    ('storage/db/services/pools.py', 'refresh'): AGAIN,
    ('storage/db/purging.py', '_remove'): NOTHING_LEFT,
    ('storage/db/types/default_types.py', 'change'): AGAIN,
    ('storage/db/types/default_types.py', 'remove'): NOTHING_LEFT,
    ('storage/db/types/qos_specs.py', 'associate'): AGAIN,
    ('storage/db/types/qos_specs.py', 'delete'): FOUND_DONE,
    ('storage/db/types/qos_specs.py', 'delete_keys'): FOUND_DONE,
    ('storage/db/types/qos_specs.py', 'disassociate'): NOTHING_LEFT,
    ('storage/db/types/qos_specs.py', 'update'): AGAIN,
    ('storage/db/quotas.py', 'change'): AGAIN,
    ('storage/db/quotas.py', 'change_class'): AGAIN,
    ('storage/db/quotas.py', 'reset'): NOTHING_LEFT,
    ('storage/db/services/services.py', 'register'): AGAIN,
    ('storage/db/services/services.py', 'heartbeat'): AGAIN,
    ('storage/db/services/services.py', '_change'): AGAIN,
    ('storage/db/services/services.py', 'remove'): FOUND_DONE,
    ('storage/db/attachments/waits.py', '_begin'): FOUND_DONE,
    ('storage/db/attachments/waits.py', '_remove'): NOTHING_LEFT,
    ('storage/db/attachments/waits.py', 'put_off'): AGAIN,
    ('storage/db/attachments/waits.py', 'take'): FOUND_DONE,
    ('storage/db/volumes/volumes.py', 'set_readonly'): AGAIN,
    ('storage/db/volumes/resets.py', 'clear'): NOTHING_LEFT,
    ('storage/db/volumes/resets.py', 'reset_status'): AGAIN,
    ('storage/db/volumes/volumes.py', 'update'): AGAIN,
    ('storage/db/volumes/volumes.py', 'change_metadata'):
        f'{AGAIN}; with If-Match, or of a key to be removed, {FOUND_DONE}',
    ('storage/db/volumes/volumes.py', 'change_image_metadata'):
        f'{AGAIN}; of a key to be removed {FOUND_DONE}',
    ('storage/db/services/rpc_endpoints.py', 'register'): AGAIN,
    ('storage/db/services/rpc_endpoints.py', 'withdraw'): NOTHING_LEFT,
    ('storage/db/services/rpc_endpoints.py', 'heartbeat'): AGAIN,
    ('storage/db/snapshots/snapshots.py', 'change_metadata'):
        f'{AGAIN}; with a condition {FOUND_DONE}',
    ('storage/db/snapshots/snapshots.py', 'leave_remains'): AGAIN,
    ('storage/db/snapshots/snapshots.py', 'reset_status'): AGAIN,
    ('storage/db/snapshots/snapshots.py', 'state_status'): FOUND_DONE,
    ('storage/db/snapshots/snapshots.py', 'update'): AGAIN,
    ('storage/db/types/type_access.py', 'remove'): FOUND_DONE,
    ('storage/db/types/volume_types.py', '_change_encryption'):
        f'{AGAIN}; a deletion {FOUND_DONE}',
    ('storage/db/types/volume_types.py', 'update'): AGAIN,
    ('storage/db/types/volume_types.py', 'delete'): FOUND_DONE,
    ('storage/db/types/volume_types.py', 'set_extra_specs'): AGAIN,
    ('storage/db/types/volume_types.py', 'delete_extra_spec'): FOUND_DONE,
    ('storage/db/importing/importer.py', 'write_catalogue'): FOUND_DONE,
    ('storage/db/importing/importer.py', 'drafts'): FOUND_DONE,
    ('storage/db/volumes/cached_images.py', 'forget'): NOTHING_LEFT,
    ('storage/db/volumes/volumes.py', 'leave_remains'): AGAIN,
    ('storage/db/work.py', 'claim'): AGAIN,
    ('storage/db/work.py', 'renew'): AGAIN,
    ('storage/db/work.py', 'interrupt'): AGAIN,
    ('storage/db/work.py', 'hand_over'): NOTHING_LEFT,
    ('storage/db/work.py', 'hasten'): AGAIN,
    ('storage/db/work.py', 'note'): AGAIN,
    ('storage/db/work.py', 'forget'): NOTHING_LEFT,
}


def repeated(module):
    """Yield the functions that write without a function to look for the outcome."""
    for function in ast.walk(module.tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                        and node.func.attr == 'writer' and not node.args):
                    yield module.path.removeprefix('blockattach/'), function.name


class LostCommitsTest(unittest.TestCase):

    def test_verbs_without_lookup_listed_as_repeatable(self):
        found = {place for module in sources.product() for place in repeated(module)}
        self.assertEqual(set(REPEATABLE), found)

    def test_verb_without_lookup_found(self):
        module = sources.parse('def verb(database):\n    with database.writer() as c:\n'
                               '        pass\n', 'blockattach/storage/db/example.py')
        self.assertEqual([('storage/db/example.py', 'verb')], list(repeated(module)))

    def test_verb_with_lookup_passes(self):
        module = sources.parse('def verb(database):\n    with database.writer(look) as c:\n'
                               '        pass\n')
        self.assertEqual([], list(repeated(module)))

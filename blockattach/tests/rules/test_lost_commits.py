"""A verb whose COMMIT may have happened looks for what it has written, or may be done twice.

`blockattach.db.engine.engine.Database.writer` is given a way to look. Where it is not, the verb is
repeated: the table says why that does no harm.
"""
import ast
import unittest

from blockattach.tests.rules import sources

AGAIN = 'says the same once more'
NOTHING_LEFT = 'finds nothing left to do'
FOUND_DONE = 'is refused because it is done, which is what was asked for'

REPEATABLE = {
    ('db/derived.py', 'counts'): AGAIN,
    ('db/derived.py', 'volume_status'): AGAIN,
    ('db/attachments/detaches.py', '_lapse'): NOTHING_LEFT,
    ('db/engine/engine.py', 'wrong'): AGAIN,
    ('db/idempotency.py', 'purge'): NOTHING_LEFT,
    ('db/attachments/key_rotation.py', '_awaiting'): AGAIN,
    ('db/attachments/key_rotation.py', '_reseal'): NOTHING_LEFT,
    ('db/attachments/key_rotation.py', 'renew'): NOTHING_LEFT,
    ('db/attachments/dry_runs.py', 'reserve'): AGAIN,
    ('db/attachments/initiator_names.py', '_migrate_volume'): NOTHING_LEFT,
    ('db/attachments/history.py', '_number'): NOTHING_LEFT,
    ('db/attachments/history.py', 'purge'): NOTHING_LEFT,
    ('db/attachments/leases.py', 'take'): AGAIN,
    ('db/attachments/leases.py', 'give_back'): NOTHING_LEFT,
    ('db/attachments/leases.py', 'forget'): NOTHING_LEFT,
    ('db/attachments/leases.py', 'leave'): NOTHING_LEFT,
    ('db/messages.py', 'create'): AGAIN,
    ('db/messages.py', 'delete'): NOTHING_LEFT,
    ('db/messages.py', 'purge'): NOTHING_LEFT,
    ('db/services/clusters.py', 'set_disabled'): AGAIN,
    ('db/services/pools.py', 'report'): AGAIN,
    ('db/services/pools.py', 'forget'): NOTHING_LEFT,
    ('db/services/pools.py', 'refresh'): AGAIN,
    ('db/purging.py', '_remove'): NOTHING_LEFT,
    ('db/types/default_types.py', 'change'): AGAIN,
    ('db/types/default_types.py', 'remove'): NOTHING_LEFT,
    ('db/types/qos_specs.py', 'associate'): AGAIN,
    ('db/types/qos_specs.py', 'delete'): FOUND_DONE,
    ('db/types/qos_specs.py', 'delete_keys'): FOUND_DONE,
    ('db/types/qos_specs.py', 'disassociate'): NOTHING_LEFT,
    ('db/types/qos_specs.py', 'update'): AGAIN,
    ('db/quotas.py', 'change'): AGAIN,
    ('db/quotas.py', 'change_class'): AGAIN,
    ('db/quotas.py', 'reset'): NOTHING_LEFT,
    ('db/services/services.py', 'register'): AGAIN,
    ('db/services/services.py', 'heartbeat'): AGAIN,
    ('db/services/services.py', '_change'): AGAIN,
    ('db/services/services.py', 'remove'): FOUND_DONE,
    ('db/attachments/waits.py', '_begin'): FOUND_DONE,
    ('db/attachments/waits.py', '_remove'): NOTHING_LEFT,
    ('db/attachments/waits.py', 'put_off'): AGAIN,
    ('db/attachments/waits.py', 'take'): FOUND_DONE,
    ('db/volumes/volumes.py', 'set_readonly'): AGAIN,
    ('db/volumes/resets.py', 'clear'): NOTHING_LEFT,
    ('db/volumes/resets.py', 'reset_status'): AGAIN,
    ('db/volumes/volume_settings.py', 'update'): AGAIN,
    ('db/volumes/volume_settings.py', 'change_metadata'):
        f'{AGAIN}; with If-Match, or of a key to be removed, {FOUND_DONE}',
    ('db/volumes/volume_settings.py', 'change_image_metadata'):
        f'{AGAIN}; of a key to be removed {FOUND_DONE}',
    ('db/services/rpc_endpoints.py', 'register'): AGAIN,
    ('db/services/rpc_endpoints.py', 'withdraw'): NOTHING_LEFT,
    ('db/services/rpc_endpoints.py', 'heartbeat'): AGAIN,
    ('db/snapshots/snapshots.py', 'change_metadata'): f'{AGAIN}; with a condition {FOUND_DONE}',
    ('db/snapshots/snapshots.py', 'leave_remains'): AGAIN,
    ('db/snapshots/snapshots.py', 'reset_status'): AGAIN,
    ('db/snapshots/snapshots.py', 'state_status'): FOUND_DONE,
    ('db/snapshots/snapshots.py', 'update'): AGAIN,
    ('db/types/type_access.py', 'remove'): FOUND_DONE,
    ('db/types/volume_types.py', '_change_encryption'): f'{AGAIN}; a deletion {FOUND_DONE}',
    ('db/types/volume_types.py', 'update'): AGAIN,
    ('db/types/volume_types.py', 'delete'): FOUND_DONE,
    ('db/types/volume_types.py', 'set_extra_specs'): AGAIN,
    ('db/types/volume_types.py', 'delete_extra_spec'): FOUND_DONE,
    ('db/importing/writing.py', 'catalogue'): FOUND_DONE,
    ('db/importing/writing.py', 'drafts'): FOUND_DONE,
    ('db/volumes/cached_images.py', 'forget'): NOTHING_LEFT,
    ('db/volumes/volumes.py', 'leave_remains'): AGAIN,
    ('db/work.py', 'claim'): AGAIN,
    ('db/work.py', 'renew'): AGAIN,
    ('db/work.py', 'interrupt'): AGAIN,
    ('db/work.py', 'hand_over'): NOTHING_LEFT,
    ('db/work.py', 'hasten'): AGAIN,
    ('db/work.py', 'note'): AGAIN,
    ('db/work.py', 'forget'): NOTHING_LEFT,
}


def repeated(module):
    """The functions of a module that write and do not say how to look."""
    for function in ast.walk(module.tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                        and node.func.attr == 'writer' and not node.args):
                    yield module.path.removeprefix('blockattach/'), function.name


class LostCommitsTest(unittest.TestCase):

    def test_what_does_not_look_may_be_repeated(self):
        found = {place for module in sources.product() for place in repeated(module)}
        self.assertEqual(set(REPEATABLE), found)

    def test_one_that_does_not_look_is_found(self):
        module = sources.parse('def verb(database):\n    with database.writer() as c:\n'
                               '        pass\n', 'blockattach/db/example.py')
        self.assertEqual([('db/example.py', 'verb')], list(repeated(module)))

    def test_one_that_looks_passes(self):
        module = sources.parse('def verb(database):\n    with database.writer(look) as c:\n'
                               '        pass\n')
        self.assertEqual([], list(repeated(module)))

"""``blockattach-manage secrets``: rotation of sealing keys, and repair after the loss of a key."""
from oslo_config import cfg

from blockattach.cmd import manage_db
from blockattach.platform import errors
from blockattach.platform.conf import core
from blockattach.platform.conf import service
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import key_rotation
from blockattach.storage.db.services import services
from blockattach.wiring import dependencies

SOME_LOST = 3


def check(conf: cfg.ConfigOpts) -> int:
    """Print the number of credentials by key, and the credentials that cannot be decrypted.

    With ``--forget``, credentials that cannot be decrypted are replaced by new credentials.

    :returns: exit status, as in the help of the command
    """
    if conf.noun.forget:
        # The key file may be lost, and the new credentials must be sealed.
        dependencies.make_key(core.settings(conf))
    database = dependencies.open_database(conf, check_sealed=False)
    lost = list(key_rotation.lost(database))
    _print_keys(database)
    if lost:
        print()
        manage_db.print_table(
            ('VOLUME', 'INITIATOR', 'ATTACHMENTS TO RENEW'),
            [(one.volume_id, one.initiator, ' '.join(one.attachment_ids)) for one in lost])
    if conf.noun.forget:
        for one in lost:
            key_rotation.renew(database, one)
        return 0
    return SOME_LOST if lost else 0


def rotate(conf: cfg.ConfigOpts) -> None:
    """Run the step of the key rotation that the arguments name, or all steps if none is named.

    :raises ConfigurationError: the keys are not in the state that the step requires, or not all
        steps can be run, because services of other hosts are up or the configuration lists the
        keys
    """
    database = dependencies.open_database(conf)
    noun = conf.noun
    step = (key_rotation.prepare if noun.prepare else key_rotation.promote if noun.promote else
            key_rotation.reseal if noun.reseal else key_rotation.finish if noun.finish else None)
    # A step reads the keys and writes them back, so two commands could undo each other's changes.
    with database.sealer.alone():
        if step is not None:
            print(step(database))
            return
        _refuse_other_hosts(conf, database)
        for line in key_rotation.rotate(database):
            print(line)


def _refuse_other_hosts(conf: cfg.ConfigOpts, database: storage_db.Database) -> None:
    """Check that no services of other hosts are up.

    :raises ConfigurationError: services of other hosts are up
    """
    settings = service.settings(conf)
    others = {one.host.partition('@')[0]
              for one in services.list_all(database, settings.service_down_time) if one.up}
    # Other hosts may have their own key files, which would not contain the new key.
    others.discard(settings.host)
    if others:
        raise errors.ConfigurationError(
            reason='cannot rotate the keys in one step while services of other hosts are up '
                   f'({", ".join(sorted(others))}). Run --prepare, --promote, --reseal and '
                   '--finish, and copy the key file to each host after each step')


def _print_keys(database: storage_db.Database) -> None:
    counts = key_rotation.counts(database)
    ours = [key.id for key in database.sealer.ring()]
    others = sorted(str(key_id or 'unknown') for key_id in counts.keys() - set(ours))
    named = {key_id or 'unknown': number for key_id, number in counts.items()}
    manage_db.print_table(
        ('KEY', 'USE', 'CREDENTIALS'),
        [(key_id, 'seals' if [key_id] == ours[:1] else 'opens' if key_id in ours else '',
          named.get(key_id, 0)) for key_id in (*ours, *others)])

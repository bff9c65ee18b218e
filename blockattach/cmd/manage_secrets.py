"""``blockattach-manage secrets``: replace the keys that seal credentials, and mend what a lost key
has left."""
from oslo_config import cfg

from blockattach import errors
from blockattach.cmd import manage_db
from blockattach.db import engine
from blockattach.db import sealed_grants

SOME_LOST = 3
_BATCH = 100


def check(conf: cfg.ConfigOpts) -> int:
    """Print how many credentials each key has sealed, and those that cannot be opened."""
    database = manage_db.open_database(conf, check_sealed=False)
    lost = list(sealed_grants.lost(database))
    _print_keys(database)
    if lost:
        print()
        manage_db.print_table(
            ('VOLUME', 'INITIATOR', 'ATTACHMENTS TO RENEW'),
            [(one.volume_id, one.initiator, ' '.join(one.attachment_ids)) for one in lost])
    if conf.noun.forget:
        for one in lost:
            sealed_grants.renew(database, one)
        return 0
    return SOME_LOST if lost else 0


def rotate(conf: cfg.ConfigOpts) -> None:
    """One step.

    :raises ConfigurationError: not before the other steps
    """
    told = conf.noun
    act = (_prepare if told.prepare else _promote if told.promote else
           _reseal if told.reseal else _finish)
    act(manage_db.open_database(conf))


def _prepare(database: engine.Database) -> None:
    sealer = database.sealer
    if len(sealer.ring()) > 1:
        raise errors.ConfigurationError(
            reason='cannot prepare: there is another key already: go on with the next step')
    print(sealer.add())


def _promote(database: engine.Database) -> None:
    sealer = database.sealer
    last = sealer.ring()[-1].id
    if len(sealer.ring()) < 2:
        raise errors.ConfigurationError(reason='cannot promote: there is one key only: begin with '
                                               '--prepare')
    if sealed_grants.counts(database).get(last):
        raise errors.ConfigurationError(reason=f'cannot promote: key {last} has sealed before')
    print(sealer.promote())


def _reseal(database: engine.Database) -> None:
    done = 0
    while (batch := sealed_grants.reseal(database, _BATCH)).found:
        done += batch.done
    print(f'{done} credentials are sealed anew, by key {database.sealer.ring()[0].id}.')


def _finish(database: engine.Database) -> None:
    sealer = database.sealer
    first = sealer.ring()[0].id
    left = sum(number for key_id, number in sealed_grants.counts(database).items()
               if key_id != first)
    if left:
        raise errors.ConfigurationError(
            reason=f'cannot forget keys: {left} credentials are not sealed by key {first}: run '
                   '--reseal')
    print(sealer.keep_first())


def _print_keys(database: engine.Database) -> None:
    counts = sealed_grants.counts(database)
    ours = [key.id for key in database.sealer.ring()]
    others = sorted(str(key_id or 'not noted') for key_id in counts.keys() - set(ours))
    named = {key_id or 'not noted': number for key_id, number in counts.items()}
    manage_db.print_table(
        ('KEY', 'USE', 'CREDENTIALS'),
        [(key_id, 'seals' if key_id == ours[0] else 'opens' if key_id in ours else '',
          named.get(key_id, 0)) for key_id in (*ours, *others)])

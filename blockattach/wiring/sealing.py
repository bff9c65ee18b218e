"""What seals credentials: the keys that are configured, and whether they open what is stored."""
import os

import sqlalchemy as sa
from oslo_config import cfg

from blockattach import errors
from blockattach import secrets
from blockattach.conf import core as core_conf
from blockattach.conf import locations
from blockattach.db import engine
from blockattach.db import key_rotation
from blockattach.secrets import key_file


def open_sealer(conf: cfg.ConfigOpts, core: core_conf.CoreSettings, database: sa.Engine,
                needed: bool = True) -> secrets.Sealer:
    """By the key manager where keys of it are named, else by a file, made where nothing is sealed.

    :param needed: False: a lost key file is none, which opens nothing
    :raises ConfigurationError: the keys are not there, or Castellan is not installed
    """
    with locations.named(conf, 'DEFAULT', _option(core)):
        path = core.seal_key_file
        if not core.seal_key_ids:
            if os.path.exists(path) or not key_rotation.are_there(database):
                return key_file.KeyFile(path)
            if not needed:
                return secrets.Sealer(())
            raise errors.ConfigurationError(
                reason=f'cannot open sealed credentials: the key file is gone: restore {path}, or '
                       f'see blockattach-manage secrets check')
        try:
            # An extra that few need, and long to load.
            from blockattach.secrets import key_manager
        except ImportError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use a key manager: {exc}: install blockattach[castellan]') from exc
        return key_manager.KeyManagerSealer(conf, lambda: core_conf.settings(conf).seal_key_ids)


def check(conf: cfg.ConfigOpts, core: core_conf.CoreSettings, database: engine.Database) -> None:
    """Make sure that what is stored can be opened.

    :raises ConfigurationError: it cannot
    """
    place = 'the key' if core.seal_key_ids else core.seal_key_file
    with locations.named(conf, 'DEFAULT', _option(core)):
        try:
            key_rotation.check(database)
        except errors.ConfigurationError as exc:
            raise errors.ConfigurationError(
                reason=f'{exc}: restore {place}, or see blockattach-manage secrets check'
            ) from exc


def make_key(core: core_conf.CoreSettings) -> None:
    """A fresh key instead of one that is lost; nothing where there is one.

    :raises ConfigurationError: it cannot be made
    """
    if not core.seal_key_ids:
        key_file.KeyFile(core.seal_key_file)


def _option(core: core_conf.CoreSettings) -> str:
    return 'seal_key_ids' if core.seal_key_ids else 'seal_key_file'

"""Remove the LIO exports of the backends of a configuration, so that their volumes can be deleted.

    python devstack/remove_lio_exports.py --config-file FILE

The command is meant for a machine whose volumes are about to be deleted. It ends the sessions of
hosts. The volume service must not be running, because it would export the volumes again. The
command needs the privileges for LIO: those of root, or the rule for sudo
(doc/source/admin/lio.rst).
"""
import os
import sys

from oslo_config import cfg

from blockattach.cmd import process
from blockattach.platform import errors
from blockattach.storage.conf import backend
from blockattach.storage.drivers.targets import lio
from blockattach.storage.privileged import context
from blockattach.storage.privileged import lio_tree
from blockattach.wiring import options

NAME = 'devstack/remove_lio_exports.py'


def main() -> int:
    """Remove the exports, and return 0, or 1 if an export cannot be removed."""
    conf = cfg.ConfigOpts()
    try:
        conf(sys.argv[1:], project='blockattach', prog=NAME)
        options.register(conf)
        context.configure(conf)
        if not os.path.isdir(lio_tree.fabric()):
            print('LIO offers nothing')
            return 0
        for name in conf.volume.enabled_backends:
            backend.register(conf, name)
            if conf[name].target == 'lio':
                remove(lio.LioTarget(backend.settings(conf, name, '')))
    except (errors.BlockattachError, cfg.Error) as exc:
        print(f'{NAME}: {exc}', file=sys.stderr)
        return 1
    return 0


def remove(target: lio.LioTarget) -> None:
    """Remove all exports of a target, and print each volume."""
    for one in target.exports():
        target.unexport(one.volume_id)
        process.say(f'Volume {one.volume_id} is offered no more')


if __name__ == '__main__':
    sys.exit(main())

"""End what LIO offers for the backends of a configuration, so that nothing holds their volumes.

    python tools/remove_lio_exports.py --config-file FILE

For a machine whose volumes are about to be removed: sessions of hosts end. The volume service must
not run, since it would offer all of it again. LIO needs the rights for it, root's or those of the
rule for sudo (doc/source/admin/lio.rst).
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

NAME = 'tools/remove_lio_exports.py'


def main() -> int:
    """Remove; 0 if nothing is left, 1 with the reason if not."""
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
    """Remove all that it offers, and print each volume."""
    for one in target.exports():
        target.unexport(one.volume_id)
        process.say(f'Volume {one.volume_id} is offered no more')


if __name__ == '__main__':
    sys.exit(main())

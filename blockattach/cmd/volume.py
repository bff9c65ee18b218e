"""``blockattach-volume``: keeps the backends named in ``[volume] enabled_backends``."""
import sys

from blockattach import errors
from blockattach.cmd import process
from blockattach.conf import volume as volume_conf
from blockattach.volume import service
from blockattach.wiring import foundation
from blockattach.wiring import volume


def main() -> int:
    """Run until told to stop."""
    return process.run('blockattach-volume', sys.argv[1:], _services)


def _services(base: foundation.Foundation) -> list[service.VolumeService]:
    backends = volume_conf.settings(base.conf).enabled_backends
    if not backends:
        raise errors.ConfigurationError(
            reason='cannot serve: [volume] enabled_backends names no backend')
    return [volume.build_volume(base, name) for name in backends]


if __name__ == '__main__':
    sys.exit(main())

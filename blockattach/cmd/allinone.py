"""``blockattach-all``: the whole service in one process, for a laptop, a lab or a single host."""
import sys

from oslo_config import cfg

from blockattach.cmd import process
from blockattach.conf import embedded
from blockattach.wiring import allinone
from blockattach.wiring import foundation

CLI_OPTS = (
    cfg.StrOpt('state-dir', metavar='DIR',
               help='Folder of all that is kept. Default: blockattach in the XDG state folder.'),
    cfg.StrOpt('listen', default='127.0.0.1:8776', metavar='HOST:PORT',
               help='Address of the API. Without Keystone it belongs on a loopback address.'),
    cfg.StrOpt('backend', default='file', choices=['file', 'fake'],
               help='file: sparse files, exported over iSCSI; fake: in memory, to try the API.'),
)


def main() -> int:
    """Run until told to stop; 1 and one line on standard error if it cannot start."""
    conf = cfg.ConfigOpts()
    conf.register_cli_opts(CLI_OPTS)
    told = process.Told()
    service = allinone.AllInOne(conf)
    with process.starting('blockattach-all'):
        foundation.configure(conf, sys.argv[1:])
        embedded.set_defaults(conf, conf.state_dir, conf.listen, conf.backend)
        service.start()
    try:
        process.say(f'blockattach serves at {service.url}/v3 (state in {service.state_path})')
        told.wait(service.reload)
        process.say('blockattach stops')
    finally:
        service.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())

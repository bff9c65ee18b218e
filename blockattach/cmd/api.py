"""``blockattach-api``: the HTTP API on the built-in server, where no other is chosen."""
import sys

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach import log
from blockattach.cmd import process
from blockattach.conf import api as api_conf
from blockattach.http import server
from blockattach.policy import enforcer
from blockattach.wiring import api
from blockattach.wiring import foundation

LOG = oslo_log.getLogger(__name__)


def main() -> int:
    """Run until told to stop."""
    conf = cfg.ConfigOpts()
    told = process.Told()
    with process.starting('blockattach-api'):
        foundation.configure(conf, sys.argv[1:])
        settings = api_conf.settings(conf)
        base = foundation.build_foundation(conf)
        rules = enforcer.Enforcer(conf)
        listener = server.Server(api.build_api(base, rules), settings.host, settings.port,
                                 settings.threads, settings.max_request_body_size)
        listener.bind()
        api.warn_if_open(settings)
    listener.start()
    LOG.info('API serves%s', log.fields(host=settings.host, port=listener.port))
    told.wait(rules.reload)
    listener.stop()
    base.close()
    LOG.info('API has stopped%s', log.fields(host=settings.host, port=settings.port))
    return 0


if __name__ == '__main__':
    sys.exit(main())

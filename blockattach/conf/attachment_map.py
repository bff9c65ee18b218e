"""[map]: the page that draws volumes with the hosts and servers that use them."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'map'


@dataclasses.dataclass(frozen=True, slots=True)
class MapSettings:
    """Whether it is served."""

    enabled: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Serve /map: a page that draws volumes with the hosts and servers that use them. It holds '
        'no data and is served without a token; what it shows it reads from this API with the '
        'token of its viewer, who sees what the policy lets that token see.'))


OPTS = groups.options(MapSettings)


def settings(conf: cfg.ConfigOpts) -> MapSettings:
    """Read the group."""
    return groups.read(conf, GROUP, MapSettings)

"""Options of [map], the page that draws volumes with the hosts and servers that use them."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'map'


@dataclasses.dataclass(frozen=True, slots=True)
class MapSettings:
    """Settings of the attachment map."""

    enabled: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Serve the attachment map at /map. The page draws volumes with the hosts and servers that '
        'use them. The page contains no data and is served without a token. The browser reads the '
        'data from this API with the token of the viewer. The policy limits the data to the '
        'resources that are visible to the token.'))


OPTS = groups.options(MapSettings)


def settings(conf: cfg.ConfigOpts) -> MapSettings:
    """Return the settings of the group [map]."""
    return groups.read(conf, GROUP, MapSettings)

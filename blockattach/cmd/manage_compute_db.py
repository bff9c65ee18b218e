"""``blockattach-manage compute_db``: the schema of the compute API's database."""
from oslo_config import cfg

from blockattach.compute.store import models
from blockattach.wiring import compute_store


def sync(conf: cfg.ConfigOpts) -> None:
    """Upgrade the schema of the compute database to this release."""
    with compute_store.opened(conf) as engine:
        models.MIGRATIONS.upgrade(engine)


def version(conf: cfg.ConfigOpts) -> None:
    """Print the current revision of the compute database schema."""
    with compute_store.opened(conf) as engine:
        print(models.MIGRATIONS.version(engine))

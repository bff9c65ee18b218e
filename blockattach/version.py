"""Version of the installed package, as recorded by pbr."""
import importlib.metadata


def version_string() -> str:
    """Return the version for ``--version``."""
    return importlib.metadata.version('blockattach')

"""The version of the installed package, as pbr wrote it."""
import importlib.metadata


def version_string() -> str:
    """For ``--version``."""
    return importlib.metadata.version('blockattach')

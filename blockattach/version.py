"""Version of the installed package, as recorded by pbr."""
import importlib.metadata


def version_string() -> str:
    """Return the version of the installed package, which ``--version`` prints."""
    return importlib.metadata.version('blockattach')

"""Files on the disk are readable only for the user that the service runs as."""
import os
import shlex
import stat

from blockattach.platform import errors

_OTHERS = 0o077


def check_private(path: str) -> None:
    """Return if only its owner may use a file or a folder.

    :raises ConfigurationError: others may; the text has the command that ends it
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & _OTHERS:
        private = 0o700 if os.path.isdir(path) else 0o600
        raise errors.ConfigurationError(
            reason=f'{path} is accessible to other users (mode {mode:04o}). Run: '
                   f'chmod {private:o} {shlex.quote(path)}')

"""Check that files are accessible only to the user of the service."""
import os
import shlex
import stat

from blockattach.platform import errors

_OTHERS = 0o077


def check_private(path: str) -> None:
    """Check that a file or folder is accessible to its owner only.

    :raises ConfigurationError: other users have access; the text contains the command that fixes
        it
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & _OTHERS:
        private = 0o700 if os.path.isdir(path) else 0o600
        raise errors.ConfigurationError(
            reason=f'{path} is accessible to other users (mode {mode:04o}). Run: '
                   f'chmod {private:o} {shlex.quote(path)}')

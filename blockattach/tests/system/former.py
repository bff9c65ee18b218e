"""The release before this one, from the history of this checkout, to run beside it."""
import io
import os
import pathlib
import subprocess
import tarfile

from blockattach.tests.rules import sources

COMMIT = '0c3cb090f177ad12287616385aa785dc9eda83a2'
"""Where release 0.2 ended: schema 0003, the first one whose separate processes share a broker."""
RELEASE = '0.2'
"""What ``[rpc] release`` calls it."""

_PACKAGE = 'blockattach'


def why_missing():
    """Why it cannot be had, and whether whoever checked out could mend that; None: it can."""
    if not (sources.ROOT / '.git').exists():
        return 'this is no checkout: the code of the former release is not here', False
    try:
        if _git('cat-file', '-e', f'{COMMIT}^{{commit}}').returncode == 0:
            return None
    except FileNotFoundError:
        return 'git is not installed', True
    shallow = _git('rev-parse', '--is-shallow-repository').stdout.strip() == b'true'
    return (f'the history does not hold {COMMIT[:12]}'
            + (': git fetch --unshallow' if shallow else ''), False)


def unpack(folder):
    """Put its package into a folder, to be run from there.

    What the environment says of entry points holds for it too: it has the same names at the same
    places. What it needs and this release does not (cheroot) is in test-requirements.txt.
    """
    archive = _git('archive', COMMIT, _PACKAGE)
    assert archive.returncode == 0, archive.stderr
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter='data')
    return pathlib.Path(folder)


def _git(*arguments):
    # A checkout may belong to somebody else, as it does in a container.
    return subprocess.run(['git', '-c', f'safe.directory={sources.ROOT}', *arguments],
                          cwd=sources.ROOT, capture_output=True, check=False,
                          env={**os.environ, 'GIT_OPTIONAL_LOCKS': '0'})

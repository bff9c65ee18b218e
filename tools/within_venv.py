"""The environment of Python packages that tools run in: ``.venv``, made where it is missing."""
import importlib.util
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, '.venv')
_PREPARE = '. "$0" && { [ $# = 0 ] || ensure_system_packages "$@" || true; } && ensure_test_venv'


def enter(*packages: str) -> None:
    """Go on in it, as the same command. What the tests need is installed there first.

    :param packages: sets of system packages that are installed, too, if that may be
    :raises SystemExit: it cannot be prepared; it was said why
    """
    sys.path[:0] = [ROOT, os.path.join(ROOT, 'tools')]
    # With what the tests need an interpreter is in it, or in an environment of tox.
    if importlib.util.find_spec('stestr') is not None:
        return
    environment = os.path.join(ROOT, 'tools', 'environment.sh')
    prepared = subprocess.run(['bash', '-c', _PREPARE, environment, *packages], check=False)
    if prepared.returncode:
        sys.exit(prepared.returncode)
    python = os.path.join(VENV, 'bin', 'python')
    os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:]])

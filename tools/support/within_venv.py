"""Virtual environment of the tools: ``.venv``, which is created if needed."""
import importlib.util
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(__file__, *[os.pardir] * 3))
VENV = os.path.join(ROOT, '.venv')
_PREPARE = '. "$0" && { [ $# = 0 ] || ensure_system_packages "$@" || true; } && ensure_test_venv'


def enter(*packages: str) -> None:
    """Continue the same command in the virtual environment, with the test requirements.

    :param packages: sets of system packages that are installed as well if permitted
    :raises SystemExit: the environment cannot be prepared. The reason was printed
    """
    sys.path[:0] = [ROOT, os.path.join(ROOT, 'tools')]
    # An interpreter that has the test requirements belongs to the virtual environment or to tox.
    if importlib.util.find_spec('stestr') is not None:
        return
    environment = os.path.join(ROOT, 'tools', 'support', 'environment.sh')
    prepared = subprocess.run(['bash', '-c', _PREPARE, environment, *packages], check=False)
    if prepared.returncode:
        sys.exit(prepared.returncode)
    python = os.path.join(VENV, 'bin', 'python')
    os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:]])

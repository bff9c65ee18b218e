"""What a kind of host needs of this machine: skipped without, or failed where CI=true."""
import os
import shutil

from blockattach.tests.conformance import settings


def require(test, *names):
    """These programs, which are in bindep.txt (profile ``compute``)."""
    for name in names:
        settings.outside_program(test, shutil.which(name) is not None, name)


def require_devices(test, *paths):
    """These devices, and root, who opens them."""
    settings.outside_program(test, os.geteuid() == 0, 'what runs as root')
    for path in paths:
        settings.outside_program(test, os.path.exists(path), path)

"""Programs and devices that tests of hosts need. Without them, tests are skipped or fail in CI."""
import os
import shutil

from blockattach.tests.conformance import settings


def require(test, *names):
    """Skip the test without these programs, or fail it if CI=true.

    The programs are listed in bindep.txt (profile ``compute``).
    """
    for name in names:
        settings.outside_program(test, shutil.which(name) is not None, name)


def require_devices(test, *paths):
    """Skip the test without these devices and root, or fail it if CI=true."""
    settings.outside_program(test, os.geteuid() == 0, 'what runs as root')
    for path in paths:
        settings.outside_program(test, os.path.exists(path), path)

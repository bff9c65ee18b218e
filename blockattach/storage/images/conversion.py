"""qemu-img, in a process without rights and with limits.

It finds two files in the folder that it is started in, by names of ours, and is given each one's
format. Where the service runs as root it runs as another user; it can never gain a right.
"""
import errno
import os
import pwd
import subprocess

from oslo_concurrency import processutils

from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf

_NAMES = {'vhd': 'vpc', 'ploop': 'parallels'}
"""What qemu-img calls formats otherwise than Glance."""
_ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C', 'PYTHONSAFEPATH': '1'}
_LONGEST_REASON = 500
_FULL = {errno.ENOSPC: 'No space left on device', errno.EDQUOT: 'Disk quota exceeded'}
"""Messages of the C library under ``LC_ALL=C``. EFBIG is missing, because it results from the
size limit of the conversion and not from a full disk."""


class Converter:
    """Converts disks from one format to another."""

    def __init__(self, settings: images_conf.ImageSettings) -> None:
        self._settings = settings

    def hand_over(self, folder: str) -> None:
        """Let the program into a folder, and at what is in it.

        :raises ConfigurationError: its account does not exist
        """
        if (account := self._account()) is not None:
            for path in (folder, *(os.path.join(folder, name) for name in os.listdir(folder))):
                os.chown(path, account.pw_uid, account.pw_gid)

    def convert(self, folder: str, source: str, source_format: str, target: str,
                target_format: str, most_bytes: int) -> None:
        """Make the file ``target`` of the file ``source``, both in the folder.

        :param most_bytes: that the new file may have
        :raises ConversionFailed: it cannot be converted, or not within the limits
        :raises OSError: there is no space for the new file
        :raises ConfigurationError: there is no such program, or its account does not exist
        """
        self.hand_over(folder)
        settings = self._settings
        words = ['qemu-img', 'convert', '-f', _name(source_format), '-O', _name(target_format)]
        if target_format == 'qcow2' and settings.compress:
            words.append('-c')
        if target_format == 'vhd':
            # Else it becomes as large as a geometry of disks says.
            words += ['-o', 'force_size=on']
        started: list[subprocess.Popen[bytes]] = []
        try:
            processutils.execute(
                *self._rightless(), *words, f'./{source}', f'./{target}', cwd=folder,
                env_variables=_ENVIRONMENT, timeout=settings.conversion_seconds,
                on_execute=started.append,
                prlimit=processutils.ProcessLimits(
                    address_space=settings.address_space, cpu_time=settings.cpu_seconds,
                    file_size=most_bytes, core_file_size=0))
        except processutils.ProcessExecutionError as exc:
            complaint = (str(exc.stderr or '').strip()
                         or f'qemu-img exited with status {exc.exit_code}')
            for number, said in _FULL.items():
                if said in complaint:
                    raise OSError(number, said) from exc
            raise errors.ConversionFailed(reason=complaint[-_LONGEST_REASON:]) from exc
        except subprocess.TimeoutExpired as exc:
            started[0].kill()
            started[0].communicate()
            raise errors.ConversionFailed(
                reason=f'qemu-img did not finish within {settings.conversion_seconds} '
                       f'seconds') from exc
        except OSError as exc:
            raise errors.ConfigurationError(reason=f'cannot run qemu-img: {exc}') from exc

    def _rightless(self) -> list[str]:
        # It ends with this process.
        words = ['setpriv', '--no-new-privs', '--pdeathsig=KILL']
        if (account := self._account()) is not None:
            words += [f'--reuid={account.pw_uid}', f'--regid={account.pw_gid}', '--clear-groups',
                      '--inh-caps=-all', '--bounding-set=-all']
        return [*words, '--']

    def _account(self) -> pwd.struct_passwd | None:
        """The account to run as; None: the service's own, which has no rights."""
        if os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(self._settings.conversion_user)
        except KeyError as exc:
            raise errors.ConfigurationError(
                reason=f'account {self._settings.conversion_user} does not exist '
                       '([images] image_conversion_user)') from exc


def _name(disk_format: str) -> str:
    return _NAMES.get(disk_format, disk_format)

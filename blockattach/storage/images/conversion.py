"""Conversion of disk images by qemu-img, in a process without privileges and with limits.

qemu-img is started in a folder with the source and target file, under names that the service
chooses. The formats of both files are given explicitly. If the service runs as root, qemu-img runs
as another user. qemu-img can never gain privileges.
"""
import errno
import os
import pwd
import subprocess

from oslo_concurrency import processutils

from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf

_NAMES = {'vhd': 'vpc', 'ploop': 'parallels'}
"""Names that qemu-img gives to formats, where these differ from those of Glance."""
_ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C', 'PYTHONSAFEPATH': '1'}
_LONGEST_REASON = 500
_FULL = {errno.ENOSPC: 'No space left on device', errno.EDQUOT: 'Disk quota exceeded'}
"""Messages of the C library under ``LC_ALL=C``. EFBIG is missing, because it results from the
size limit of the conversion and not from a full disk."""


class Converter:
    """Converter of disk images from one format to another."""

    def __init__(self, settings: images_conf.ImageSettings) -> None:
        self._settings = settings

    def hand_over(self, folder: str) -> None:
        """Make the account of qemu-img the owner of a folder and of the files in it.

        :raises ConfigurationError: if the account does not exist
        """
        if (account := self._account()) is not None:
            for path in (folder, *(os.path.join(folder, name) for name in os.listdir(folder))):
                os.chown(path, account.pw_uid, account.pw_gid)

    def convert(self, folder: str, source: str, source_format: str, target: str,
                target_format: str, most_bytes: int) -> None:
        """Convert the file ``source`` to the new file ``target`` in the same folder.

        :param source_format: format of the source in the words of Glance, like ``target_format``
        :param most_bytes: maximum size of the new file in bytes
        :raises ConversionFailed: if the conversion fails or exceeds a limit
        :raises OSError: if there is no space for the new file
        :raises ConfigurationError: if qemu-img or its account does not exist
        """
        self.hand_over(folder)
        settings = self._settings
        words = ['qemu-img', 'convert', '-f', _name(source_format), '-O', _name(target_format)]
        if target_format == 'qcow2' and settings.compress:
            words.append('-c')
        if target_format == 'vhd':
            # Without this option, qemu-img rounds the size of the disk to a CHS geometry.
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
        # With pdeathsig, the kernel kills qemu-img when this process ends.
        words = ['setpriv', '--no-new-privs', '--pdeathsig=KILL']
        if (account := self._account()) is not None:
            words += [f'--reuid={account.pw_uid}', f'--regid={account.pw_gid}', '--clear-groups',
                      '--inh-caps=-all', '--bounding-set=-all']
        return [*words, '--']

    def _account(self) -> pwd.struct_passwd | None:
        """Return the account of qemu-img, or None for that of the service if this is not root.

        :raises ConfigurationError: if the account does not exist
        """
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

"""What LVM complains of, read: whether anything happened, and what an operator does about it.

The texts are those of LVM 2.03 under ``LC_ALL=C``. One that is not known proves nothing, so it is
uncertain.
"""
import re

from blockattach import errors
from blockattach.privileged import commands

# A command line that LVM does not understand is refused before anything is done.
_NOT_UNDERSTOOD = 3

# what it says, kind of the error, what helps
_KNOWN: tuple[tuple[str, type[errors.BackendRefused], str], ...] = (
    ('insufficient free space|insufficient suitable', errors.BackendFull,
     'add a disk to the volume group with vgextend'),
    ('reached threshold|out of (data|metadata) space', errors.BackendFull,
     'extend the thin pool with lvextend'),
    ('in use|used by another device', errors.BackendRefused,
     'end what holds it open; lsblk and fuser name it'),
    ('PVs are missing|partial LV', errors.BackendRefused,
     'bring the disk back and run vgextend --restoremissing, or give it up with vgreduce '
     '--removemissing'),
    ('with system ID', errors.BackendRefused,
     'the volume group belongs to another host; use one of this host'),
    ('volume group ".*" not found', errors.BackendRefused,
     'make it with vgcreate; this service never does'),
    ('failed to find logical volume', errors.BackendRefused, 'it does not exist'),
    ('target.* not detected|device-mapper driver|target support missing', errors.BackendRefused,
     'load the kernel modules dm-mod, dm-thin-pool and dm-snapshot'),
    ('permission denied|running as a non-root user', errors.BackendRefused,
     'let the service act as root; see helper_command in [privsep_lvm]'),
)


def error_of(failure: commands.CommandFailed, size_gb: float) -> errors.BackendError:
    """The error that a failed command is."""
    output = _sentence(failure.complaint)
    for pattern, kind, cure in _KNOWN:
        if re.search(pattern, failure.complaint, re.IGNORECASE):
            text = f'{failure.command}: {output}; {cure}'
            if kind is errors.BackendFull:
                return errors.BackendFull(size_gb=f'{size_gb:g}', reason=text)
            return kind(reason=text)
    if failure.code == _NOT_UNDERSTOOD:
        return errors.BackendRefused(
            reason=f'{failure.command}: {output}; is LVM older than 2.03?')
    return errors.BackendUncertain(reason=f'{failure.command} ended with {failure.code}: {output}')


def _sentence(complaint: str) -> str:
    """What it says in a line, without warnings."""
    lines = [line.strip().rstrip('.') for line in complaint.splitlines()]
    return ': '.join(dict.fromkeys(line for line in lines if not line.startswith('WARNING'))) or \
        complaint.strip()

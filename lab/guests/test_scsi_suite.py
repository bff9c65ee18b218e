"""libiscsi's conformance suite on a logical volume that the LIO driver exports."""
import os
import re
import secrets
import subprocess
import tempfile
from typing import NamedTuple

from blockattach.platform import units
from lab.guests import base
from lab.guests import lio_driver
from lab.guests.machines import guest

SECONDS = 600.0


class Count(NamedTuple):
    """Numbers of tests of a family.

    The suite counts tests as passed that it skips, wholly or in part, because the disk does not
    support a command. ``proved`` does not include them.
    """

    proved: int
    passed: int
    tests: int


# libiscsi 1.19 on Linux 6.1. The failures are due to the kernel: a sense code of COMPARE AND
# WRITE, RECEIVE COPY RESULTS, BYTCHK of VERIFY, and the granularity of discards of thin volumes.
RECORDED = {
    'CompareAndWrite': Count(1, 3, 5),
    'ExtendedCopy': Count(6, 6, 6),
    'GetLBAStatus': Count(0, 3, 3),
    'Inquiry': Count(6, 6, 7),
    'Mandatory': Count(1, 1, 1),
    'ModeSense6': Count(5, 5, 5),
    'MultipathIO': Count(0, 4, 4),
    'NoMedia': Count(1, 1, 1),
    'OrWrite': Count(0, 6, 6),
    'Prefetch10': Count(0, 4, 4),
    'Prefetch16': Count(0, 4, 4),
    'PreventAllow': Count(0, 8, 8),
    'PrinReadKeys': Count(2, 2, 2),
    'PrinReportCapabilities': Count(1, 1, 1),
    'PrinServiceactionRange': Count(1, 1, 1),
    'ProutClear': Count(1, 1, 1),
    'ProutPreempt': Count(1, 1, 1),
    'ProutRegister': Count(1, 1, 1),
    'ProutReserve': Count(13, 13, 13),
    'Read10': Count(5, 6, 6),
    'Read12': Count(4, 5, 5),
    'Read16': Count(4, 5, 5),
    'Read6': Count(2, 2, 2),
    'ReadCapacity10': Count(1, 1, 1),
    'ReadCapacity16': Count(4, 4, 4),
    'ReadDefectData10': Count(0, 1, 1),
    'ReadDefectData12': Count(0, 1, 1),
    'ReadOnly': Count(0, 1, 1),
    'ReceiveCopyResults': Count(1, 1, 2),
    'ReportSupportedOpcodes': Count(0, 4, 4),
    'Reserve6': Count(5, 7, 7),
    'Sanitize': Count(0, 11, 11),
    'StartStopUnit': Count(2, 3, 3),
    'TestUnitReady': Count(1, 1, 1),
    'Unmap': Count(3, 3, 3),
    'Verify10': Count(5, 6, 8),
    'Verify12': Count(0, 8, 8),
    'Verify16': Count(5, 6, 8),
    'Write10': Count(5, 6, 6),
    'Write12': Count(4, 5, 5),
    'Write16': Count(4, 5, 5),
    'WriteAtomic16': Count(0, 6, 6),
    'WriteSame10': Count(7, 10, 10),
    'WriteSame16': Count(7, 10, 10),
    'WriteVerify10': Count(5, 6, 6),
    'WriteVerify12': Count(0, 6, 6),
    'WriteVerify16': Count(5, 6, 6),
}


class SuiteTest(base.LabTestCase):

    def test_no_family_falls(self):
        machine = self.a_guest('storage', memory='1G', modules=guest.STORAGE,
                               disks=[guest.make_disk(units.gib_to_bytes(4))])
        machine.start()
        password = secrets.token_hex(8)
        made = machine.call(lio_driver.grant_two, machine.address, password)
        said = self.run_suite(made, password)
        counts = counted(said)
        self.report('suite', ''.join(f'{line}\n' for line in lines(counts)))
        fallen = [family for family, recorded in RECORDED.items()
                  if any(count < least for count, least in zip(
                      counts.get(family, Count(0, 0, 0)), recorded, strict=True))]
        self.assertEqual([], fallen, said)

    def run_suite(self, made, password):
        """Run the suite outside of the guest, like any host, and return its output."""
        url = f'iscsi://{made["target_portal"]}/{made["target_iqn"]}/{made["target_lun"]}'
        one, two = lio_driver.HOSTS[:2]
        with tempfile.TemporaryFile() as said:
            # Unbuffered, so that the output of a test is between its name and its result.
            subprocess.run(
                ['stdbuf', '-o0', 'iscsi-test-cu', '--dataloss', '--verbose', '-i', one, '-I', two,
                 '--test', 'SCSI', url], stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
                env={**os.environ, 'LIBISCSI_CHAP_USERNAME': lio_driver.USERNAME,
                     'LIBISCSI_CHAP_PASSWORD': password})
            said.seek(0)
            return said.read().decode(errors='replace')


def counted(said):
    """Return the numbers of tests by family."""
    families = {}
    for block in re.split('^(?=Suite: |  Test: )', said, flags=re.MULTILINE):
        if block.startswith('Suite: '):
            family = block.split()[1]
            families[family] = Count(0, 0, 0)
        elif block.startswith('  Test: '):
            passed = re.search(r'(?:^|\.\.\.)passed', block, re.MULTILINE) is not None
            proved = passed and '[SKIPPED]' not in block
            families[family] = Count(*map(sum, zip(families[family], (proved, passed, 1),
                                                   strict=True)))
    return families


def lines(counts):
    """Yield the lines of a table of the numbers and the recorded ones."""
    row = '{:<27}{:>8}{:>8}{:>8}   {}'.format
    yield row("family of libiscsi's suite", 'proved', 'passed', 'tests', '').rstrip()
    for family, count in sorted(counts.items()):
        recorded = RECORDED.get(family)
        yield row(family, *count, '' if count == recorded else f'recorded: {recorded}').rstrip()
    yield row('all', *map(sum, zip(*counts.values(), strict=True)), '').rstrip()

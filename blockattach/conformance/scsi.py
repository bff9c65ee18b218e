"""Part of the conformance kit for targets: SCSI commands (unmap, block sizes, reservations).

Each behavior is tested on every target. A target fails if it has a capability that it does not
declare, or declares a capability that it does not have.
"""
import dataclasses
from collections.abc import Iterator

from blockattach.conformance import target_base
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base

_RO = connection.AccessMode.RO
_GOOD = 0
_USUAL_BLOCK = 512
_PIECE = units.MIB
_PIECES = 16
_KEY = 0xa
_ROUNDS = 12
_LEAK = 64 * units.KIB
"""Length in bytes of the data that one host writes and another host tries to receive."""
_MARKER = b'written by another host!'


class ScsiContract(target_base.TargetBase):
    """Behaviors of a target that hosts see by SCSI commands.

    The behaviors are skipped unless `commander` returns a host.
    """

    provable = frozenset({'live_resize', 'native_blocks', 'unmap'})

    def setUp(self) -> None:
        super().setUp()
        found = self.commander()
        if found is None:
            self.leaves_out('SCSI commands',
                            'no host is available to send commands to the target')
        self.real: target_base.Commander = found

    def logged_in(self, export: connection.Export,
                  grant: connection.Grant) -> target_base.Commands:
        """Grant an initiator access, log in as this initiator, and return the session."""
        session = self.real.log_in(self.target.grant(export, grant), grant.initiator,
                                   grant.credential)
        self.addCleanup(session.close)
        # The target may answer the first command of a session with a unit attention.
        session.flush()
        return session

    def test_a_host_sees_the_size_that_the_volume_has(self) -> None:
        export = self.an_export()
        capacity = self.logged_in(export, self.a_grant(export)).capacity()
        self.assertEqual(units.GIB, capacity.blocks * capacity.block_size)

    def test_a_host_sees_the_block_sizes_of_the_device_if_declared_else_usual_ones(self) -> None:
        export = self.an_export()
        capacity = self.logged_in(export, self.a_grant(export)).capacity()
        if isinstance(self.target, base.NativeBlocks):
            sizes = self.target.block_sizes(export.device)
            self.assertEqual((sizes.logical, sizes.physical),
                             (capacity.block_size, capacity.physical_block_size))
            self.proves('native_blocks')
        else:
            self.assertEqual(_USUAL_BLOCK, capacity.block_size)

    def test_a_session_sees_the_new_size_if_declared_and_only_then(self) -> None:
        export = self.an_export()
        session = self.logged_in(export, self.a_grant(export))
        block = session.capacity().block_size
        self.grow_device(export.device, 2)
        if isinstance(self.target, base.LiveResize):
            self.target.resize(dataclasses.replace(export, size_gb=2))
        # The target may answer the next command with a unit attention about the new capacity.
        session.flush()
        seen = session.capacity()
        written = session.write(units.GIB // block, bytes(block)).status == _GOOD
        if 'live_resize' in self.report.declared:
            self.assertEqual((2 * units.GIB, True), (seen.blocks * seen.block_size, written))
            self.proves('live_resize')
        else:
            self.assertEqual((units.GIB, False), (seen.blocks * seen.block_size, written))

    def test_what_a_host_unmaps_is_given_back_if_declared_and_only_then(self) -> None:
        export, session = self._filled()
        before = self.allocated_bytes(export.device)
        self.assertGreater(before, _PIECES * _PIECE // 2)
        session.unmap(0, _PIECES * _PIECE // session.capacity().block_size)
        # A device may allocate space for metadata, or release space only in larger units.
        freed = before - self.allocated_bytes(export.device) >= _PIECES * _PIECE // 2
        declared = (isinstance(self.target, base.Unmap)
                    and self.target.unmaps(export.device))
        self.assertEqual(declared, freed)
        if freed:
            self.proves('unmap')

    def test_a_reader_can_unmap_nothing(self) -> None:
        export, _ = self._filled()
        before = self.allocated_bytes(export.device)
        reader = self.logged_in(export, self.a_grant(export, 1, _RO))
        answer = reader.unmap(0, _PIECES * _PIECE // reader.capacity().block_size)
        self.assertNotEqual(_GOOD, answer.status)
        self.assertEqual(before, self.allocated_bytes(export.device))

    def test_hosts_see_the_reservations_of_each_other_if_declared_and_only_then(self) -> None:
        export = self.an_export()
        one, two = (self.logged_in(export, self.a_grant(export, number)) for number in range(2))
        block = max(host.capacity().block_size for host in (one, two))
        self.assertEqual(_GOOD, one.register(_KEY).status)
        self.assertEqual(_GOOD, one.reserve(_KEY).status)
        # The target answers the first command after a change of reservations with a unit
        # attention.
        two.write(0, bytes(block))
        refused = two.write(0, bytes(block)).status != _GOOD
        self.assertEqual('host_reservations' in self.report.declared, refused)

    def test_no_command_brings_what_another_host_has_written(self) -> None:
        writing, reading = self.an_export(), self.an_export()
        writer = self.logged_in(writing, self.a_grant(writing))
        grant = self.a_grant(reading, 1)
        lun = self.target.grant(reading, grant).lun
        reader = self.logged_in(reading, grant)
        block = max(writer.capacity().block_size, reader.capacity().block_size)
        for number in range(_ROUNDS):
            for name, cdb, unit in _curious(lun):
                self.assertEqual(_GOOD, writer.write(
                    number * _LEAK // block, (_MARKER * _LEAK)[:_LEAK]).status)
                self.assertEqual(-1, reader.received(cdb, _LEAK, unit).find(_MARKER), name)

    def _filled(self) -> tuple[connection.Export, target_base.Commands]:
        """Return the export of a volume with data, and the session that wrote the data."""
        export = self.an_export()
        session = self.logged_in(export, self.a_grant(export))
        block = session.capacity().block_size
        for number in range(_PIECES):
            self.assertEqual(_GOOD, session.write(
                number * _PIECE // block, b'\x5a' * _PIECE).status)
        self.assertEqual(_GOOD, session.flush().status)
        return export, session


def _curious(lun: int) -> Iterator[tuple[str, bytes, int]]:
    """Yield commands whose response can be shorter than the receive buffer of the host.

    Each item is the name, the CDB and the logical unit of a command.
    """
    absent = lun + 1
    yield 'READ of an absent unit', _read_10(0, _LEAK // _USUAL_BLOCK), absent
    yield 'READ of one block into a larger buffer', _read_10(0, 1), lun
    yield 'READ beyond the end', _read_10(0xfffffff0, 128), lun
    yield 'READ (6) with a length of 0', bytes((0x08, 0, 0, 0, 0, 0)), lun
    yield 'INQUIRY', _inquiry(None), lun
    yield 'INQUIRY of an absent unit', _inquiry(None), absent
    for page in (0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xff):
        yield f'INQUIRY page {page:#x}', _inquiry(page), lun
    yield 'MODE SENSE (6)', bytes((0x1a, 0, 0x3f, 0, 0xff, 0)), lun
    yield 'MODE SENSE (10)', bytes((0x5a, 0, 0x3f, 0, 0, 0, 0, 0xff, 0xff, 0)), lun
    yield 'REPORT LUNS', bytes((0xa0,)) + bytes(5) + _LEAK.to_bytes(4) + bytes(2), lun
    yield 'READ CAPACITY (10)', bytes((0x25,)) + bytes(9), lun
    yield 'READ CAPACITY (16)', bytes((0x9e, 0x10)) + bytes(8) + _LEAK.to_bytes(4) + bytes(2), lun
    yield 'REQUEST SENSE', bytes((0x03, 0, 0, 0, 0xff, 0)), lun
    yield 'PERSISTENT RESERVE IN', bytes((0x5e, 0)) + bytes(5) + b'\xff\xff\0', lun
    yield 'unknown command', bytes((0xff,)) + bytes(9), lun


def _read_10(block: int, count: int) -> bytes:
    return bytes((0x28, 0)) + block.to_bytes(4) + b'\0' + count.to_bytes(2) + b'\0'


def _inquiry(page: int | None) -> bytes:
    return bytes((0x12, page is not None, page or 0, 0xff, 0xff, 0))

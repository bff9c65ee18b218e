"""Tests of guests: start, commands and isolation from the machine."""
import contextlib
import os
import pathlib
import signal
import socket
import tempfile

from blockattach.platform import units
from lab.guests import base
from lab.guests.machines import guest
from lab.guests.machines import remote

# Seconds, longer than any test takes. A test that waits for it has failed.
FOREVER = '1000'


class CommandTest(base.LabTestCase):
    """Commands in a guest that all tests share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guest = guest.Guest('commands', disks=[guest.make_disk(units.MIB)])
        cls.addClassCleanup(cls.guest.close)
        cls.guest.start(timeout=30.0)

    def test_guest_is_separate_machine(self):
        done = self.guest.run('uname', '-nr')
        self.assertEqual('commands', done.output.split()[0])
        self.assertNotIn(os.uname().release, done.output)

    def test_output_errors_and_exit_code_come_back(self):
        done = self.guest.run('sh', '-c', 'cat; echo wrong >&2; exit 3', given=b'a\n\xff',
                              check=False)
        self.assertEqual((3, 'a\n\ufffd', 'wrong\n'), (done.code, done.output, done.errors))

    def test_output_comes_while_the_command_runs(self):
        heard = []
        running = self.guest.spawn('sh', '-c', f'echo first; sleep {FOREVER}')
        self.addCleanup(running.kill)

        def listen(stream, said):
            heard.append((stream, said))
            raise InterruptedError

        with self.assertRaises(InterruptedError):
            running.wait(guest.COMMAND_TIMEOUT, listen)
        self.assertEqual([('o', b'first\n')], heard)

    def test_a_daemon_is_waited_for_until_it_serves_or_has_ended(self):
        daemon = self.guest.spawn('sh', '-c', f'echo it serves; sleep {FOREVER}')
        self.addCleanup(daemon.kill)
        daemon.wait_until_it_says('serves', guest.COMMAND_TIMEOUT)
        broken = self.guest.spawn('sh', '-c', 'echo no such thing >&2; exit 3')
        with self.assertRaisesRegex(remote.CommandFailed, 'no such thing'):
            broken.wait_until_it_says('serves', guest.COMMAND_TIMEOUT)

    def test_a_failure_says_what_the_command_said(self):
        with self.assertRaisesRegex(remote.CommandFailed, 'no such thing'):
            self.guest.run('sh', '-c', 'echo no such thing >&2; false')

    def test_a_program_that_is_not_there(self):
        with self.assertRaisesRegex(remote.LabError, 'cannot start.*No such file'):
            self.guest.run('/no/such/program')

    def test_a_command_that_takes_too_long_is_killed_with_what_it_started(self):
        with self.assertRaisesRegex(remote.CommandTimeout, 'begun'):
            self.guest.run('sh', '-c', f'sleep {FOREVER} & echo $! >/run/child; echo begun; wait',
                           timeout=1.0)
        self.guest.wait_for('sh', '-c', '! kill -0 "$(cat /run/child)"')

    def test_talking_on_gains_no_time(self):
        with self.assertRaises(remote.CommandTimeout):
            self.guest.run('sh', '-c', 'while sleep 0.1; do echo on; done', timeout=1.0)

    def test_a_daemon_that_keeps_the_output_holds_nobody_up(self):
        done = self.guest.run('sh', '-c', f'setsid sleep {FOREVER} & echo $!')
        self.guest.run('kill', done.output.strip())

    def test_commands_run_side_by_side(self):
        """Two commands that wait for each other both end."""
        script = 'echo >/run/$0; until [ -e /run/$1 ]; do sleep 0.1; done'
        first = self.guest.spawn('sh', '-c', script, 'first', 'second')
        self.addCleanup(first.kill)
        self.guest.run('sh', '-c', script, 'second', 'first')
        self.assertEqual(0, first.wait(guest.COMMAND_TIMEOUT).code)

    def test_functions_are_called_with_the_checkout(self):
        self.assertEqual(2 * units.GIB, self.guest.call(units.gib_to_bytes, 2))

    def test_write_in_guest_not_visible_on_host(self):
        path = os.path.join(os.path.dirname(__file__), 'written-in-a-guest')
        self.guest.run('sh', '-c', 'echo x >"$1"; test -s "$1"', 'sh', path)
        self.assertFalse(os.path.exists(path))

    def test_its_disk_is_there(self):
        done = self.guest.run('blockdev', '--getsize64', self.guest.device(0))
        self.assertEqual(units.MIB, int(done.output))

    def test_the_orphans_of_its_daemons_are_taken_away(self):
        self.guest.run('sh', '-c', '(sh -c "exec true" &) ; true')
        self.guest.wait_for('sh', '-c', '! grep -qs "^State:.Z" /proc/[0-9]*/status')


class LifecycleTest(base.LabTestCase):

    def test_a_folder_is_shared(self):
        folder = tempfile.mkdtemp()
        machine = self.a_guest('shared', shared=folder)
        machine.start()
        machine.run('sh', '-c', 'echo done >/results/report')
        with open(os.path.join(folder, 'report'), encoding='utf-8') as report:
            self.assertEqual('done\n', report.read())

    def test_a_power_cut_loses_the_memory_and_keeps_the_disk(self):
        machine = self.a_guest('cut', disks=[guest.make_disk(units.MIB)])
        machine.start()
        address = machine.address
        machine.run('sh', '-c', 'echo x >/etc/memory; printf kept | dd of=$0 conv=fsync',
                    machine.device(0))
        machine.power_cut()
        with self.assertRaisesRegex(remote.ConnectionLost, 'cut is off'):
            machine.run('true')
        machine.start()
        self.assertEqual(address, machine.address)
        self.assertEqual('kept', machine.run('head', '-c', '4', machine.device(0)).output)
        self.assertNotEqual(0, machine.run('test', '-e', '/etc/memory', check=False).code)

    def test_stopped_guest_keeps_disk_data(self):
        machine = self.a_guest('off', disks=[guest.make_disk(units.MIB)])
        machine.start()
        machine.run('sh', '-c', 'printf kept >$0', machine.device(0))
        machine.stop()
        machine.start()
        self.assertEqual('kept', machine.run('head', '-c', '4', machine.device(0)).output)

    def test_a_crash_is_reported_with_the_words_of_the_kernel(self):
        machine = self.a_guest('crash')
        machine.start()
        with self.assertRaisesRegex(remote.ConnectionLost, 'sysrq triggered crash'):
            machine.run('sh', '-c', f'echo c >/proc/sysrq-trigger; sleep {FOREVER}')

    def test_its_programs_end_with_its_kernel(self):
        """The processes of a guest end with its kernel, which is killed.

        Otherwise they would continue on the machine, and write to its files.
        """
        escaped = os.path.join(tempfile.mkdtemp(), 'escaped')
        machine = self.a_guest('killed')
        machine.start()
        writer = machine.spawn('sh', '-c', 'while :; do : >"$0"; done', escaped)
        self.addCleanup(writer.kill)
        machine.wait_for('test', '-e', escaped)
        os.kill(kernel_of('killed'), signal.SIGKILL)
        with self.assertRaisesRegex(remote.ConnectionLost, 'killed is off'):
            writer.wait(guest.COMMAND_TIMEOUT)
        self.assertFalse(os.path.exists(escaped))

    def test_a_guest_that_cannot_start_says_why(self):
        machine = self.a_guest('broken', modules=['no-such-module'])
        with self.assertRaisesRegex(remote.LabError, 'no-such-module'):
            machine.start()


class LinksTest(base.LabTestCase):

    def test_guests_reach_each_other_over_each_link(self):
        near = self.a_guest('near', link_count=2)
        far = self.a_guest('far', link_count=2)
        guest.start_all(near, far)
        for address in far.links.addresses:
            near.run('busybox', 'ping', '-c', '1', '-W', '30', address)
        for address in far.links.addresses6:
            near.run('busybox', 'ping6', '-c', '1', '-W', '30', address)
        second = far.links.addresses[1]
        far.links.unplug(1)
        done = near.run('busybox', 'ping', '-c', '1', '-W', '1', second, check=False)
        self.assertNotEqual(0, done.code)
        self.assertEqual('far', far.run('hostname').output.strip())
        far.links.plug(1)
        near.wait_for('busybox', 'ping', '-c', '1', '-W', '1', second)

    def test_a_guest_that_is_closed_leaves_no_taps(self):
        with guest.Guest('closed', link_count=2) as machine:
            # Compare the indexes too, as the next guest of another worker may use the same names.
            taps = {(number, name) for number, name in socket.if_nameindex()
                    if name in machine.links.taps}
            self.assertEqual(set(machine.links.taps), {name for _, name in taps})
        self.assertEqual(set(), taps & set(socket.if_nameindex()))


def kernel_of(name):
    """Return the process of a guest's kernel, which is the leader of its session."""
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            pid = int(path.name)
            if f'LAB_NAME="{name}"'.encode() in (path / 'cmdline').read_bytes() and (
                    os.getsid(pid) == pid):
                return pid
    raise AssertionError(f'{name} has no kernel')

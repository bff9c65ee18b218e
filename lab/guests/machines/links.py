"""Network links of guests: taps in the network namespace of the lab, with routes between them.

Guest N has the addresses 198.18.L.N (of the range for benchmarks, RFC 2544) and fd00:18:L::N on
link L. The other end of each link has 198.18.L.254 and fd00:18:L::fe.
"""
import os
import subprocess

from lab.guests.machines import remote

_GUESTS = range(1, 254)
_MACHINE = 254


class Links:
    """Links of a guest, until `remove`."""

    def __init__(self, count: int) -> None:
        self.number = _free_number()
        self.taps = [_tap(self.number, link) for link in range(count)]
        self.addresses = [_ipv4(link, self.number) for link in range(count)]
        # Empty if the kernel of the machine has no IPv6.
        self.addresses6 = ([_ipv6(link, self.number) for link in range(count)]
                           if os.path.exists('/proc/sys/net/ipv6') else [])
        self._unplugged: set[int] = set()
        for tap in self.taps[1:]:
            _ip('tuntap', 'add', 'dev', tap, 'mode', 'tap')
        for link, tap in enumerate(self.taps):
            _ip('link', 'set', tap, 'up')
            _ip('address', 'add', f'{_ipv4(link, _MACHINE)}/32', 'dev', tap)
            _ip('route', 'add', self.addresses[link], 'dev', tap)
            if self.addresses6:
                _ip('address', 'add', f'{_ipv6(link, _MACHINE)}/128', 'dev', tap, 'nodad')
                _ip('route', 'add', self.addresses6[link], 'dev', tap)

    def unplug(self, link: int) -> None:
        """Block all traffic of a link. The commands of the lab use link 0.

        The tap stays up, because User-Mode Linux does not use a tap again that was down.
        """
        if link not in self._unplugged:
            self._switch(link, 'add')
            self._unplugged.add(link)

    def plug(self, link: int) -> None:
        """Allow the traffic of a link again."""
        if link in self._unplugged:
            self._switch(link, 'delete')
            self._unplugged.remove(link)

    def remove(self) -> None:
        """Delete the taps. The first one is deleted last, as it reserves the number of the guest.
        """
        for link in reversed(range(len(self.taps))):
            self.plug(link)
            _ip('link', 'delete', self.taps[link])

    def _switch(self, link: int, verb: str) -> None:
        for kind, addresses in (('-4', self.addresses), ('-6', self.addresses6)):
            if addresses:
                _ip(kind, 'rule', verb, 'iif', self.taps[link], 'blackhole')
                _ip(kind, 'rule', verb, 'to', addresses[link], 'blackhole')


def _free_number() -> int:
    """Return a free guest number. Creating its first tap reserves the number in this lab."""
    for number in _GUESTS:
        done = _try('tuntap', 'add', 'dev', _tap(number, 0), 'mode', 'tap')
        if done.returncode == 0:
            return number
        if 'busy' not in done.stderr:
            raise remote.LabError(f'cannot make a tap: {done.stderr.strip()}')
    raise remote.LabError(f'cannot have more than {len(_GUESTS)} guests')


def _tap(number: int, link: int) -> str:
    return f'lab{number}-{link}'


def _ipv4(link: int, number: int) -> str:
    return f'198.18.{link}.{number}'


def _ipv6(link: int, number: int) -> str:
    return f'fd00:18:{link}::{number:x}'


def _ip(*words: str) -> None:
    done = _try(*words)
    if done.returncode:
        raise remote.LabError(f'ip {" ".join(words)}: {done.stderr.strip()}')


def _try(*words: str) -> 'subprocess.CompletedProcess[str]':
    return subprocess.run(['ip', *words], check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)

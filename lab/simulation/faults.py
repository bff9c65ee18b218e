"""What goes wrong, and how often: one table, and one source of chance."""
import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """How likely each fault is at each place where it could happen; seconds are the longest."""

    crash: float = 0.0004
    """At each point where a process touches something: it ends, as by kill -9."""
    crash_at_point: float = 0.001
    """The same at a failpoint."""
    lost_message: float = 0.02
    doubled_message: float = 0.05
    late_message: float = 0.04
    late_seconds: float = 40.0
    lost_reply: float = 0.02
    not_taken: float = 0.01
    """The broker takes no message."""
    cut_message: float = 0.02
    """Without a broker a connection ends before all of a message is sent, or is read."""
    stale_address: float = 0.02
    """Another process has got the port, or none."""
    deadlock: float = 0.01
    """A transaction is thrown out at its end."""
    lost_commit: float = 0.01
    """The connection is lost while it commits; half of them are stored."""
    away: float = 0.002
    """A transaction finds no database."""
    refused: float = 0.06
    """Of an act on a backend."""
    uncertain_before: float = 0.03
    uncertain_after: float = 0.03
    unforeseen: float = 0.01
    slow: float = 0.05
    slow_seconds: float = 30.0
    lies: float = 0.004
    """A backend says that it has refused, and has done it; or lists half of what it exports."""
    glance_away: float = 0.03
    """Glance does not take a request."""
    glance_refuses: float = 0.02
    """It refuses one, or fails."""
    glance_silent: float = 0.03
    """It does what it is asked and gives no answer."""
    glance_cut: float = 0.1
    """The bytes of an image end too early."""
    slow_glance: float = 0.05
    stall: float = 0.002
    """A thread stands still before it touches something, as one of a stopped process does."""
    stall_seconds: float = 45.0


NONE = Rates(**{field.name: 0.0 for field in dataclasses.fields(Rates)})


class Faults:
    """Asked at each place; counts what it has let happen."""

    def __init__(self, chance: random.Random, rates: Rates) -> None:
        self.rates = rates
        self.active = True
        self.happened: Counter[str] = Counter()
        self._chance = chance

    def happens(self, name: str, of: str = '') -> bool:
        """Whether the fault of that name happens here and now.

        :param of: to what: a method of the bus, a verb of a backend, a process
        """
        if not self.active:
            return False
        rate = getattr(self.rates, name)
        if rate and self._chance.random() < rate:
            self.happened[name] += 1
            return True
        return False

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """For observers."""
        before, self.active = self.active, False
        try:
            yield
        finally:
            self.active = before

    def seconds(self, longest: float) -> float:
        """How long something takes that takes long: mostly short, sometimes very long."""
        return longest * self._chance.random() ** 3

    def either(self) -> bool:
        """One way or the other."""
        return self._chance.random() < 0.5

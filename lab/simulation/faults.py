"""Faults of the simulation, their probabilities, and the source of chance that triggers them."""
import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Probability of each fault at each place where it can happen. Seconds are maxima."""

    crash: float = 0.0004
    """The process dies as by ``kill -9`` before an effect that others can see."""
    crash_at_point: float = 0.001
    """The process dies at a failpoint."""
    lost_message: float = 0.02
    doubled_message: float = 0.05
    late_message: float = 0.04
    late_seconds: float = 40.0
    lost_reply: float = 0.02
    not_taken: float = 0.01
    """The broker does not accept a message."""
    cut_message: float = 0.02
    """A connection without a broker ends before the message is completely sent or read."""
    stale_address: float = 0.02
    """Another process, or none, listens at the port of a server."""
    deadlock: float = 0.01
    """A transaction is rolled back at its end because of a deadlock."""
    lost_commit: float = 0.01
    """The connection is lost during a commit. Half of these transactions are stored."""
    away: float = 0.002
    """The database cannot be reached when a transaction begins."""
    refused: float = 0.06
    """A backend refuses an operation."""
    uncertain_before: float = 0.03
    """A backend does nothing and gives no answer."""
    uncertain_after: float = 0.03
    """A backend performs an operation and gives no answer."""
    unforeseen: float = 0.01
    """A driver performs an operation and raises an error outside its contract."""
    slow: float = 0.05
    slow_seconds: float = 30.0
    lies: float = 0.004
    """A backend reports a refusal of what it has done, or omits an export from its list."""
    glance_away: float = 0.03
    """Glance cannot be reached."""
    glance_refuses: float = 0.02
    """Glance refuses a request, or fails."""
    glance_silent: float = 0.03
    """Glance executes a request and gives no answer."""
    glance_cut: float = 0.1
    """The data of an image is cut off."""
    slow_glance: float = 0.05
    stall: float = 0.002
    """A thread pauses before an effect that others can see, as in a stopped process."""
    stall_seconds: float = 45.0


NONE = Rates(**{field.name: 0.0 for field in dataclasses.fields(Rates)})


class Faults:
    """Random decisions on faults, with counts of the faults that happened."""

    def __init__(self, chance: random.Random, rates: Rates) -> None:
        self.rates = rates
        self.active = True
        self.happened: Counter[str] = Counter()
        self._chance = chance

    def happens(self, name: str, of: str = '') -> bool:
        """Return True if the named fault happens here and now.

        :param of: what the fault concerns: a method of the bus, a verb of a backend, a process
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
        """Switch all faults off, for observers."""
        before, self.active = self.active, False
        try:
            yield
        finally:
            self.active = before

    def seconds(self, longest: float) -> float:
        """Return a random duration. Most are short, few are close to the maximum."""
        return longest * self._chance.random() ** 3

    def either(self) -> bool:
        """Return True or False with equal probability."""
        return self._chance.random() < 0.5

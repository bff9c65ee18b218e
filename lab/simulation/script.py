"""Scripted faults of a scenario, which happen only where the scenario asks for them."""
import dataclasses
import random

from lab.simulation import bus
from lab.simulation import faults


@dataclasses.dataclass(slots=True)
class _Planned:
    name: str
    of: str
    times: int
    seconds: float


class Script(faults.Faults):
    """Faults that happen as often as planned, instead of randomly.

    :ivar away: processes that cannot reach the database
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance, faults.NONE)
        self.away: set[str] = set()
        self._planned: list[_Planned] = []
        self._takes = 0.0

    def plan(self, name: str, of: str, times: int = 1, seconds: float = 0.0) -> None:
        """Plan a fault that happens the next times that it can.

        :param name: the name of the fault in `faults.Rates`
        :param of: what the fault concerns: a method of the bus, or a verb of a backend
        :param seconds: duration of a fault that takes time
        """
        self._planned.append(_Planned(name, of, times, seconds))

    def forget(self) -> None:
        """Cancel all planned faults."""
        self._planned.clear()

    def unplayed(self) -> list[str]:
        """Return the planned faults that have not happened."""
        return [f'{one.name} of {one.of}' for one in self._planned]

    def happens(self, name: str, of: str = '') -> bool:
        if not self.active:
            return False
        if name == 'away' and of in self.away:
            return True
        for one in self._planned:
            if (one.name, one.of) == (name, of):
                one.times -= 1
                if not one.times:
                    self._planned.remove(one)
                self._takes = one.seconds
                self.happened[name] += 1
                return True
        return False

    def seconds(self, longest: float) -> float:
        """Return the planned duration of the current fault."""
        return self._takes


class Bus:
    """Faults of the next messages of a method of `blockattach.platform.rpc`."""

    def __init__(self, script: Script, broker: bus.Broker) -> None:
        self._script = script
        self._broker = broker

    def lose(self, method: str, times: int = 1) -> None:
        """Lose the request."""
        self._script.plan('lost_message', method, times)

    def lose_reply(self, method: str, times: int = 1) -> None:
        """Lose the reply after the request was executed."""
        self._script.plan('lost_reply', method, times)

    def repeat(self, method: str, times: int = 1) -> None:
        """Deliver the request twice."""
        self._script.plan('doubled_message', method, times)

    def delay(self, method: str, seconds: float) -> None:
        """Deliver the request late, so that later requests overtake it."""
        self._script.plan('late_message', method, seconds=seconds)

    def drop_kept(self) -> None:
        """Drop the messages kept for processes that do not listen, as when queues are purged."""
        self._broker.purge()


class Backend:
    """Faults of the next operations of a verb of `blockattach.storage.drivers.base`."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def refuse(self, verb: str, times: int = 1) -> None:
        """Plan refusals, after which nothing has changed."""
        self._script.plan('refused', verb, times)

    def lose(self, verb: str, times: int = 1) -> None:
        """Plan operations that do nothing and get no answer."""
        self._script.plan('uncertain_before', verb, times)

    def lose_answer(self, verb: str, times: int = 1) -> None:
        """Plan operations that are performed and get no answer."""
        self._script.plan('uncertain_after', verb, times)

    def delay(self, verb: str, seconds: float, times: int = 1) -> None:
        """Delay the operation."""
        self._script.plan('slow', verb, times, seconds)

    def recover(self) -> None:
        """Cancel all planned faults."""
        self._script.forget()

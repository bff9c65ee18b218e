"""What goes wrong in a scenario: nothing by chance, each fault where it was asked for."""
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
    """Each fault happens as often as it was planned.

    :ivar away: processes that do not reach the database
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance, faults.NONE)
        self.away: set[str] = set()
        self._planned: list[_Planned] = []
        self._takes = 0.0

    def plan(self, name: str, of: str, times: int = 1, seconds: float = 0.0) -> None:
        """The next so many times that it could happen, it does.

        :param name: as `faults.Rates` calls it
        :param of: to what: a method of the bus, a verb of a backend
        :param seconds: how long it takes, where it takes long
        """
        self._planned.append(_Planned(name, of, times, seconds))

    def forget(self) -> None:
        """Nothing is planned any more."""
        self._planned.clear()

    def unplayed(self) -> list[str]:
        """What was planned and could not happen: the story was another one."""
        return [f'{one.name} of {one.of}' for one in self._planned]

    def happens(self, name: str, of: str = '') -> bool:
        """As its ancestor's."""
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
        """As planned."""
        return self._takes


class Bus:
    """What becomes of the next messages of a method (`blockattach.platform.rpc`)."""

    def __init__(self, script: Script, broker: bus.Broker) -> None:
        self._script = script
        self._broker = broker

    def lose(self, method: str, times: int = 1) -> None:
        """The request does not come."""
        self._script.plan('lost_message', method, times)

    def lose_reply(self, method: str, times: int = 1) -> None:
        """It is done, and the answer does not come."""
        self._script.plan('lost_reply', method, times)

    def repeat(self, method: str, times: int = 1) -> None:
        """It comes twice."""
        self._script.plan('doubled_message', method, times)

    def delay(self, method: str, seconds: float) -> None:
        """It comes so much later, and others before it."""
        self._script.plan('late_message', method, seconds=seconds)

    def drop_kept(self) -> None:
        """What waits for a process that does not listen is lost, as where queues are purged."""
        self._broker.purge()


class Backend:
    """What becomes of the next acts of a verb (`blockattach.storage.drivers.base`)."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def refuse(self, verb: str, times: int = 1) -> None:
        """It says no, and has done nothing."""
        self._script.plan('refused', verb, times)

    def lose(self, verb: str, times: int = 1) -> None:
        """It does nothing, and nobody knows."""
        self._script.plan('uncertain_before', verb, times)

    def lose_answer(self, verb: str, times: int = 1) -> None:
        """It is done, and nobody knows."""
        self._script.plan('uncertain_after', verb, times)

    def delay(self, verb: str, seconds: float, times: int = 1) -> None:
        """It takes so long before it happens."""
        self._script.plan('slow', verb, times, seconds)

    def recover(self) -> None:
        """Nothing more of that."""
        self._script.forget()

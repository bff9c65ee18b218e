"""Long runs, divided into simulations that can each be replayed from a seed of its own."""
import concurrent.futures
import multiprocessing
from collections.abc import Iterator

from blockattach.wiring import processes
from lab.simulation import direct
from lab.simulation import hunting
from lab.simulation import play

LONGEST = 2500
"""Maximum number of operations of one simulation. A longer run consists of several."""
_NEXT_SEED = 1_000_003


def simulations(seed: int, steps: int, nouns: tuple[str, ...] = (),
                way: direct.Way = direct.Way.BROKER) -> list[hunting.Wanted]:
    """Return the simulations of a run. The first has the seed of the run."""
    return [hunting.Wanted(seed + number * _NEXT_SEED, min(steps - begin, LONGEST), nouns, way)
            for number, begin in enumerate(range(0, steps, LONGEST))]


def simulate(wanted: hunting.Wanted) -> play.Report:
    """Run one simulation of a run."""
    processes.settle()
    return play.Simulation(wanted.seed, played=wanted.nouns, way=wanted.way).run(wanted.steps)


def run(seed: int, steps: int, processes: int, nouns: tuple[str, ...] = (),
        way: direct.Way = direct.Way.BROKER) -> Iterator[play.Report]:
    """Run all simulations in parallel processes, and yield their reports in order."""
    wanted = simulations(seed, steps, nouns, way)
    if len(wanted) == 1 or processes == 1:
        yield from map(simulate, wanted)
        return
    with concurrent.futures.ProcessPoolExecutor(
            processes, multiprocessing.get_context('forkserver')) as pool:
        yield from pool.map(simulate, wanted)

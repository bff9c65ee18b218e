"""A long run: several simulations, each replayed from a seed of its own."""
import concurrent.futures
import multiprocessing
from collections.abc import Iterator

from blockattach.wiring import processes
from lab.simulation import direct
from lab.simulation import hunting
from lab.simulation import play

LONGEST = 2500
"""Operations of one simulation. A longer run is several, with seeds that follow from the first."""
_NEXT_SEED = 1_000_003


def simulations(seed: int, steps: int, nouns: tuple[str, ...] = (),
                way: direct.Way = direct.Way.BROKER) -> list[hunting.Wanted]:
    """What a run consists of; the first simulation has the seed of the run."""
    return [hunting.Wanted(seed + number * _NEXT_SEED, min(steps - begin, LONGEST), nouns, way)
            for number, begin in enumerate(range(0, steps, LONGEST))]


def simulate(wanted: hunting.Wanted) -> play.Report:
    """One of them."""
    processes.settle()
    return play.Simulation(wanted.seed, played=wanted.nouns, way=wanted.way).run(wanted.steps)


def run(seed: int, steps: int, processes: int, nouns: tuple[str, ...] = (),
        way: direct.Way = direct.Way.BROKER) -> Iterator[play.Report]:
    """All of them, in their order, in so many processes at once."""
    wanted = simulations(seed, steps, nouns, way)
    if len(wanted) == 1 or processes == 1:
        yield from map(simulate, wanted)
        return
    with concurrent.futures.ProcessPoolExecutor(
            processes, multiprocessing.get_context('forkserver')) as pool:
        yield from pool.map(simulate, wanted)

"""A long run: several simulations, each replayed from a seed of its own."""
import concurrent.futures
import multiprocessing
from collections.abc import Iterator

from blockattach.tests.simulation import play
from blockattach.wiring import collecting

LONGEST = 2500
"""Operations of one simulation. A longer run is several, with seeds that follow from the first."""
_NEXT_SEED = 1_000_003


def simulations(seed: int, steps: int) -> list[tuple[int, int]]:
    """Seeds and operations of what a run consists of; the first one has the seed of the run."""
    return [(seed + number * _NEXT_SEED, min(steps - begin, LONGEST))
            for number, begin in enumerate(range(0, steps, LONGEST))]


def simulate(wanted: tuple[int, int]) -> play.Report:
    """One of them."""
    seed, steps = wanted
    collecting.settle()
    return play.Simulation(seed).run(steps)


def run(seed: int, steps: int, processes: int) -> Iterator[play.Report]:
    """All of them, in their order, in so many processes at once."""
    wanted = simulations(seed, steps)
    if len(wanted) == 1 or processes == 1:
        yield from map(simulate, wanted)
        return
    with concurrent.futures.ProcessPoolExecutor(
            processes, multiprocessing.get_context('forkserver')) as pool:
        yield from pool.map(simulate, wanted)

"""What a backend's own ``goodness_function`` says: the pool that suits best first."""
from blockattach.domain import pools
from blockattach.scheduler import backend_functions


def measure(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """From 0 to 100."""
    return backend_functions.goodness(request, pool)

"""Laboratory: simulation, planted bugs, and tests too long for the gate or of a whole machine."""
# Log handling and the time limit of test workers are set up there.
import blockattach.tests  # noqa: F401

"""Gate tests of the simulation (`lab.simulation`): fixed seeds, and a death at each failpoint."""

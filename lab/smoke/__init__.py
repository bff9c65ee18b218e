"""Cloud of real servers and processes on which the smoke tests of the gate run."""

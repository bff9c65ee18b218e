"""Store drivers, which keep the data of volumes."""

"""Host drivers, which run servers in memory, as QEMU guests, or as block devices of the host."""

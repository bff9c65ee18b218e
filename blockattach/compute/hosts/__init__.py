"""What runs servers on a host, by kind: in memory, as QEMU guests, and the host itself."""

"""The interfaces of block storage on the bus, their clients, and the releases that know them."""

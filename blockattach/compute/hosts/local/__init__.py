"""Host driver that attaches volumes as block devices of the host, and runs no guests."""

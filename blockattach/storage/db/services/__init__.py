"""Services, clusters, RPC endpoints, and the pools that volume services report."""

"""What is asked of Nova, as its HTTP client."""

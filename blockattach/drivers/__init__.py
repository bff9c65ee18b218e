"""What drivers of vendors import."""

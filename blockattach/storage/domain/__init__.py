"""Domain rules: pure functions and records without oslo, database or clock."""

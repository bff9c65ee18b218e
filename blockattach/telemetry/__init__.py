"""What a process tells of itself to those who run it: metrics, traces, and its state on demand."""

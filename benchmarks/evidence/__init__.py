"""Evidence that nobody here wrote, or that anybody can repeat: python -m benchmarks.evidence."""

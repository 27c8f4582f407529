"""Speed and error, measured against the plain thing in the same run."""

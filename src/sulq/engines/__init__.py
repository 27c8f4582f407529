"""Where the private rows live. An engine gives exact integers and nothing else."""

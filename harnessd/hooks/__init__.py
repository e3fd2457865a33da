"""Floor 5, hooks: what happens around the loop, one file each."""

"""What the tools share: the weights file, its sections, and the readers of other formats."""

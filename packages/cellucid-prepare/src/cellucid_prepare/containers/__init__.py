"""The file formats of the output, and how an output gets its name."""

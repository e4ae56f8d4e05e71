"""From the values of a chunk to the bytes that a container stores."""

"""Data sets over an order of cells: epochs, shuffled or not, and places in them."""

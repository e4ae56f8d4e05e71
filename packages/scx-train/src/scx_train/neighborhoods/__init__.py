"""Plans of each cell and its neighbours, from stored graphs and from coordinates."""

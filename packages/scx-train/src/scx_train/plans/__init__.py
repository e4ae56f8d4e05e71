"""What the data sets that follow plans have in common: pulling plans, counters, memory, life."""

"""What data sets read: matrices, obs columns, genes and modalities of one file or several."""

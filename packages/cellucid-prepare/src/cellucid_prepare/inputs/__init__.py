"""What is given: components by hand, or out of an AnnData, a MuData or a .scx file."""

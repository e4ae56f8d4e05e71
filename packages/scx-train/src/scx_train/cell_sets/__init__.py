"""Batches of sets of cells over many files: SparseCellSetDataset, collation, downsampling."""

"""Batches of pairs of cells: IndexPlanDataset, and plans of perturbed cells and controls."""

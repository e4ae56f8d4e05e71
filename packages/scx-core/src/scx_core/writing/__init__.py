"""From an `ExperimentContent` to a .scx file."""

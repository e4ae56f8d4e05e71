"""What the output holds: every group and array, in order, before anything is written."""

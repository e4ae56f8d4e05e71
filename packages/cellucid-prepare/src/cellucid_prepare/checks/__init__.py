"""What an input must be, checked before anything is written."""

"""What tools/dev.py consists of; needs nothing but the standard library."""

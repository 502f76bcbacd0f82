"""Independent programs that the tests compare with, and the functions that compare."""

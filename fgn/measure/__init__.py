"""Times, errors, ceilings of a machine, and the records of them."""

"""What the CPU simulator counts, checks and shows line by line."""

"""Nsight Compute: profiles of launches, run here or read from records."""

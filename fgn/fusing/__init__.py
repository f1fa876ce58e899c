"""Chains in a model that somebody already has: found, run as one call each, and explained."""

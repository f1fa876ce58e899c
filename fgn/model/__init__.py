"""The model of fusion: what each version is predicted to take, and why."""

"""What only notebooks use: predictions by hand, the tensor core lesson, the map with controls."""

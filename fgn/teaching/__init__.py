"""For notebooks only: predictions by hand, the tensor core lesson, the map with controls."""

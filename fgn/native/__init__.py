"""The C libraries: build, load, the table of versions, kernel sources, prepared weights."""

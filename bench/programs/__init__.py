"""What is measured of evercurrent, one program each, through `import evercurrent` only."""

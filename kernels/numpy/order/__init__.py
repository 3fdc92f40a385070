"""NumPy in what comes first: falling scores, first appearances, keys of rows, boxes kept or not."""

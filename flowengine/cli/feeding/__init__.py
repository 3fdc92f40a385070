"""Files of values that `--feed` reads: records, lines of JSON, arrays of texts."""

"""Tables on the command line: rows of a file as feeds, a batch at a time, and fetched values as rows."""

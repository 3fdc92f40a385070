"""JSON of requests and answers, read and written in pieces, so that a large body holds nothing up."""

"""Names that users write: where an unknown one is, which known one is close, which was spelled otherwise."""

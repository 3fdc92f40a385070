"""What is tried and measured on a card: `python -m tests.gpu --out FOLDER`."""

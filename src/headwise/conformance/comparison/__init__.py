"""What an answer may differ by, and what is reported where it differs by more."""

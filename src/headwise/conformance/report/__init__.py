"""The report of a check, as text, JSON, JUnit XML and HTML."""

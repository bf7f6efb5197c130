"""What a check found, as text, JSON, JUnit XML, HTML and pytest source."""

"""The right answers: numpy in float64, sharing no code with what they judge; and how far rounding may lead."""

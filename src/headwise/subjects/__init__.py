"""Other people's attention, called as proof calls any: functions, modules, and the peers of the field by name."""

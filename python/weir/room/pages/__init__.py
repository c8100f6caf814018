"""The pages of the room, one module each: functions that make plain data of the sources."""

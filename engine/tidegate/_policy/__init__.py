"""Rules and values. Pure: values in, values out. No I/O, no clock, no trio."""

"""The words of the domain as frozen records: no I/O, no clock, no decisions."""

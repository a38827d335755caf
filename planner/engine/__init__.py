"""What will happen: memory, time, money, as columns of one table; no I/O, no clock."""

"""Pure statistics: plain arrays in, frozen values out; no I/O, no clock."""

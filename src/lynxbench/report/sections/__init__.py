"""The parts of the HTML report, one file each, in the order a reader needs them."""

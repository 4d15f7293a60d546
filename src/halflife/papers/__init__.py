"""Each paper's figures and tables, produced by the public API alone, with ours beside them."""

"""What the audit computes for each notion by itself."""

"""Pages and figures that several commands share."""

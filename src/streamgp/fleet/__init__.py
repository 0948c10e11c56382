"""Many models of one recipe at once: one small model for each sensor."""

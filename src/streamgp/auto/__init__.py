"""Auto: a stream model that scales, chooses, tunes, calibrates and notices change by itself."""

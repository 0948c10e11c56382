"""Models that leave Python: one C file that predicts and keeps learning."""

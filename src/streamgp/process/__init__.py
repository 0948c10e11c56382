"""The one idea: a row travels through memory, features and posterior, and leaves a prediction."""

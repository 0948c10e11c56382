"""The stream, compiled: a row through memory, features and posterior, and the loops over rows.

One row and many rows run through the same functions. ``layout`` says where the numbers live, ``weights``,
``dictionary`` and ``kept`` how a row is predicted and learnt, ``stream`` runs over rows.
"""

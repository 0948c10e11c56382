"""Tables: rows of a file, a pipe or a socket, and files of predictions. Nothing here knows a model."""

"""The published models, each a composition of the parts with the paper's settings; one module for each paper."""

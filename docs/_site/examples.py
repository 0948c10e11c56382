"""An extension of the reference: ``Example:`` in a docstring is a section of code, not a box of text."""

from __future__ import annotations

import griffe


class Examples(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring is not None:
            text = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
            obj.docstring.value = text.replace("] [", "] \\[")  # a citation after a bracket is no link

"""An extension of the reference: docstrings as the site wants them."""

from __future__ import annotations

import griffe


class Docstrings(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring is None:
            return
        if obj.is_attribute and "property" not in obj.labels:
            obj.docstring = None  # that of the value's type
            return
        text = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")  # a section of code, not a box of text
        obj.docstring.value = text.replace("] [", "] \\[")  # a citation after a bracket is no link

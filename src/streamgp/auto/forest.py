"""Placeholder while forests are written elsewhere."""
from typing import Any
Forest = Any
def train(F, y): return None
def next_start(seen): return 10**12
def starts(seen): return False
def wanted(trees): return False
def said(trees): return ""

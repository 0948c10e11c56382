"""``streamgp serve``: many streams over HTTP, durable, with a live page."""

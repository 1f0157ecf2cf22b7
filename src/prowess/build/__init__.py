"""The composition root: from settings to the places there are, their stores, and an engine over them."""

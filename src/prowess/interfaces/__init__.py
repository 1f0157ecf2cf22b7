"""The interfaces: they translate between people or programs and the engine, and decide nothing."""

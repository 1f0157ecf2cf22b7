"""What runs in the process that holds the WebAssembly engine. It imports nothing of Prowess but this, the frames and what confines."""

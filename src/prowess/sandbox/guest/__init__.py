"""The program in the sandbox. It is built into the component, and is not for this interpreter."""

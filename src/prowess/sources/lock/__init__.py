"""Lock files: the two that the skills CLI writes, and Prowess' own with commit, files, agents and signature."""

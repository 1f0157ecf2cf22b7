"""The ways to rank skills that Prowess is measured beside, one file each, over the same cards in the same run."""

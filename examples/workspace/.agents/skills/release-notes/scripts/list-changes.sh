#!/bin/sh
# The subjects of all commits since a tag.
exec git log --format=%s "$1..HEAD"

"""kitchen.scaled"""

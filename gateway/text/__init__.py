"""Translates texts of any length: takes them apart, sends their sentences to the models, and
puts the answers together.
"""

"""Steps that are published again: corrected data comes as a later *vintage* of its stream, charged and beside the first."""

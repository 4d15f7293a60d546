"""Audits of age-dependent promises."""

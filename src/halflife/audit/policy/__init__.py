"""Audits of a policy's real publishing path."""

"""How the notion of Swellfish computes: what each secret loses by given noise, and how much noise suffices."""

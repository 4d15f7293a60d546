"""How near published values come to the truth: raw, averaged, filtered, and by seasonal estimates, live and revised."""

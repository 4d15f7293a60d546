"""Audits by notion, one file or folder of the notion's slug each. Importing this imports all of them, so that they register."""

from halflife.registry import import_modules

import_modules(__name__, __path__)

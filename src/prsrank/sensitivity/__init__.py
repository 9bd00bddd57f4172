"""How much a ranking and its estimated gain rest on what is assumed of the clicks."""

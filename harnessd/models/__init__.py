"""Floor 2, models: who thinks. One protocol, two lanes, one assembler, and a model that needs no network."""

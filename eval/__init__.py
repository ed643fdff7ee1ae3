"""How good extraction is: a labelled set of conversations, and the figures for any model. Ships with no wheel."""

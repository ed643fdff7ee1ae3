"""From talk to memory and back: the language model, extraction, consolidation, embeddings.

Knows no database, no server and no service: what it needs of them is given to it.
"""

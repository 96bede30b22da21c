"""How does a person call it? One file per noun; each is loaded only when its noun is used."""

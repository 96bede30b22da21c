"""What can be looked up? Each corpus turns its source into findable sections and offers tools over them."""

"""Who is asked? Models behind one Protocol, each of which streams what it says."""
